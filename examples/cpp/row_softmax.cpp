// A tile kernel from C++: built, compiled and run on plain memory.
#include <tilewright/Kernel/Kernel.h>

#include <cstdio>
#include <vector>

using namespace tilewright;
using namespace tilewright::kernel;

int main() {
  Builder k("row_softmax");
  Size m = k.symbol("M"), n = k.symbol("N");
  Param x = k.in("X", DType::F32, {m, n}), y = k.out("Y", DType::F32, {m, n});
  Number scale = k.scalar("scale");
  k.parallel({m}, [&](std::span<const Axis> grid) {
    Tile row = k.load(x, {grid[0], all}) * scale;
    Tile e = k.apply("exp", {row - k.reduce("max", row, {1}, /*keep=*/true)});
    k.store(y, {grid[0], all}, e / k.reduce("sum", e, {1}, /*keep=*/true));
  });
  Compiled softmax = k.compile();

  const int64_t rows = 3, columns = 5;
  std::vector<float> in(rows * columns), out(rows * columns);
  for (size_t i = 0; i < in.size(); ++i)
    in[i] = float(i % 7);
  softmax({{in.data(), {rows, columns}}, {out.data(), {rows, columns}}, 0.5});
  for (int64_t r = 0; r < rows; ++r) {
    float sum = 0;
    for (int64_t c = 0; c < columns; ++c)
      sum += out[r * columns + c];
    std::printf("row %d: first %.6f, sum %.6f\n", int(r), out[r * columns], sum);
  }
}
