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

// An error ends the kernel: nothing is read with the wrong index.
// CHECK-LABEL: llvm.func @picks
// CHECK: %[[WRONG:.*]] = llvm.xor
// CHECK: llvm.cond_br %[[WRONG]], ^[[ERROR:bb[0-9]+]], ^[[GOOD:bb[0-9]+]]
// CHECK: ^[[ERROR]]:
// CHECK-COUNT-3: llvm.store
// CHECK-NEXT: %[[ONE:.*]] = llvm.mlir.constant(1 : i64) : i64
// CHECK-NEXT: llvm.return %[[ONE]] : i64
// CHECK-NEXT: ^[[GOOD]]:
// CHECK: llvm.load %{{.*}} -> f32
tile.kernel @picks(%x: !tile.buffer<f32>, %i: !tile.buffer<i64>, %y: !tile.buffer<f32>, %n: index, %rows: index) {
  tile.grid (%p) in (%n) {
    %k = tile.load %i[%p] : !tile.buffer<i64> -> i64
    %c = tile.check_index %k below %rows site 0 : i64
    %o = arith.index_cast %c : i64 to index
    %t = tile.load %x[%o] : !tile.buffer<f32> -> f32
    tile.store %t, %y[%p] : f32, !tile.buffer<f32>
  }
}
