// RUN: tilewright-opt %s -tile-to-vector -tile-lower-grid -expand-math -tile-to-llvm | FileCheck %s

// CHECK-LABEL: llvm.func @copy(%{{.*}}: !llvm.ptr, %{{.*}}: !llvm.ptr, %{{.*}}: i64, %{{.*}}: i64, %{{.*}}: !llvm.ptr) -> i64
// CHECK-NOT: unrealized_conversion_cast
// CHECK: llvm.return
tile.kernel @copy(%x: !tile.buffer<f32>, %y: !tile.buffer<f32>, %n: index) {
  tile.grid (%i) in (%n) {
    %t = tile.load %x[%i] strides [1] : !tile.buffer<f32> -> tensor<16xf32>
    tile.store %t, %y[%i] strides [1] : tensor<16xf32>, !tile.buffer<f32>
  }
}
