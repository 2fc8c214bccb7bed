//===- TileTarget.cpp -----------------------------------------------------===//

#include "tilewright/Target/Host/TileTarget.h"

#include "tilewright/Target/Host/Attention.h"

namespace tilewright::host {

loop::TileTarget tileTarget(llvm::StringRef level, unsigned threads) {
  auto matrix = MatrixTarget::forLevel(std::string_view(level));
  if (!matrix)
    throw loop::EmitError("unknown CPU level " + level.str());
  return {matrix->vectorBytes / 4, threads, *matrix,
          [matrix = *matrix](mlir::MLIRContext &context, const AttentionKind &kind, llvm::StringRef name) {
            return buildAttention(context, kind, matrix, name);
          }};
}

} // namespace tilewright::host
