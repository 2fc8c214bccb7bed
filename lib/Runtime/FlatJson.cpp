//===- FlatJson.cpp - the little JSON that the runtime needs --------------===//
#include "FlatJson.h"

#include <charconv>
#include <cstdint>

namespace tilewright {

namespace {

void appendUtf8(std::string &out, uint32_t code) {
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xc0 | code >> 6);
    out += static_cast<char>(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    out += static_cast<char>(0xe0 | code >> 12);
    out += static_cast<char>(0x80 | (code >> 6 & 0x3f));
    out += static_cast<char>(0x80 | (code & 0x3f));
  } else {
    out += static_cast<char>(0xf0 | code >> 18);
    out += static_cast<char>(0x80 | (code >> 12 & 0x3f));
    out += static_cast<char>(0x80 | (code >> 6 & 0x3f));
    out += static_cast<char>(0x80 | (code & 0x3f));
  }
}

class FlatParser {
public:
  explicit FlatParser(std::string_view text) : text(text) {}

  std::optional<std::map<std::string, std::string>> run() {
    std::map<std::string, std::string> members;
    if (!take('{'))
      return std::nullopt;
    if (!take('}')) {
      do {
        auto key = string();
        if (!key || !take(':'))
          return std::nullopt;
        space();
        if (text.substr(at, 4) == "null") {
          at += 4;
          members[*key];
        } else if (auto value = string()) {
          members[*key] = std::move(*value);
        } else {
          return std::nullopt;
        }
      } while (take(','));
      if (!take('}'))
        return std::nullopt;
    }
    space();
    return at == text.size() ? std::optional(members) : std::nullopt;
  }

private:
  void space() {
    while (at < text.size() && (text[at] == ' ' || text[at] == '\n' || text[at] == '\t' || text[at] == '\r'))
      ++at;
  }
  bool take(char c) {
    space();
    if (at >= text.size() || text[at] != c)
      return false;
    ++at;
    return true;
  }
  std::optional<uint32_t> unit() {
    uint32_t code = 0;
    std::string_view digits = text.substr(at, 4);
    auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
    if (error != std::errc() || end != digits.data() + 4)
      return std::nullopt;
    at += 4;
    return code;
  }
  std::optional<std::string> string() {
    if (!take('"'))
      return std::nullopt;
    std::string out;
    while (at < text.size()) {
      char c = text[at++];
      if (c == '"')
        return out;
      if (c != '\\') {
        out += c;
        continue;
      }
      if (at == text.size())
        return std::nullopt;
      switch (char e = text[at++]) {
      case '"':
      case '\\':
      case '/':
        out += e;
        break;
      case 'b':
        out += '\b';
        break;
      case 'f':
        out += '\f';
        break;
      case 'n':
        out += '\n';
        break;
      case 'r':
        out += '\r';
        break;
      case 't':
        out += '\t';
        break;
      case 'u': {
        auto code = unit();
        if (!code)
          return std::nullopt;
        if (*code >= 0xd800 && *code < 0xdc00 && text.substr(at, 2) == "\\u") { // a surrogate pair
          at += 2;
          auto low = unit();
          if (!low || *low < 0xdc00 || *low > 0xdfff)
            return std::nullopt;
          code = 0x10000 + ((*code - 0xd800) << 10) + (*low - 0xdc00);
        }
        appendUtf8(out, *code);
        break;
      }
      default:
        return std::nullopt;
      }
    }
    return std::nullopt;
  }

  std::string_view text;
  size_t at = 0;
};

} // namespace

std::optional<std::map<std::string, std::string>> parseFlatJson(std::string_view text) {
  return FlatParser(text).run();
}

std::string quoteJson(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      constexpr char digits[] = "0123456789abcdef";
      out += "\\u00";
      out += digits[c >> 4 & 15];
      out += digits[c & 15];
    } else {
      out += c;
    }
  }
  return out + '"';
}

} // namespace tilewright
