// A contraction becomes loops over rows, panels and parts of k around one call, and an epilogue in two copies: whole vectors without masks, and
// the rest of a row.
// RUN: tilewright-opt %s -tile-to-vector=level=avx512 -tile-lower-contract=level=avx512 | FileCheck %s --check-prefixes=CHECK,WIDE
// RUN: tilewright-opt %s -tile-to-vector=level=avx512 -tile-lower-contract=level=avx512 | FileCheck %s --check-prefix=BLOCK

// CHECK-LABEL: tile.kernel @product
// The stack: sums of 96 rows of two vectors, and copies of A.
// CHECK: llvm.alloca %{{.*}} x i8 {alignment = 64 : i64}
// CHECK: llvm.alloca %{{.*}} x i8 {alignment = 64 : i64}
// CHECK: tile.grid
// CHECK: scf.for
// CHECK:   scf.if
// CHECK:     llvm.call @tw_copy_rows_f32
// CHECK:   scf.for
// CHECK:     scf.for
// CHECK:       llvm.call @tw_panel_product_f32
// CHECK:     scf.for
// CHECK:       scf.for
// WIDE:          %[[SUM:.*]] = llvm.load %{{.*}} {alignment = 4 : i64} : !llvm.ptr -> vector<16xf32>
// WIDE:          arith.addf %[[SUM]]
// WIDE:          llvm.intr.masked.store %{{.*}}, %[[ALL:.*]] {alignment = 4 : i32}
// CHECK:       scf.if
// CHECK:         llvm.load %{{.*}} {alignment = 4 : i64} : !llvm.ptr -> vector<16xf32>
// CHECK:         llvm.intr.masked.store
// CHECK-NOT: tile.contract

// One block of 12 rows: a step loads two vectors of B and broadcasts twelve elements of A. Loops stay rolled.
// BLOCK: #[[ROLLED:.*]] = #llvm.loop_annotation<vectorize = {{.*}}, unroll =
// BLOCK-LABEL: llvm.func internal @tw_block_f32_12
// BLOCK-SAME: passthrough = ["noinline", "nounwind"]
// BLOCK-COUNT-24: llvm.intr.fma
// BLOCK-NOT: llvm.intr.fma
// BLOCK: llvm.cond_br {{.*}} {loop_annotation = #[[ROLLED]]}
// BLOCK-LABEL: llvm.func internal @tw_block_f32_4
// BLOCK-COUNT-8: llvm.intr.fma
// BLOCK-LABEL: llvm.func internal @tw_block_f32_2
// BLOCK-COUNT-4: llvm.intr.fma
// BLOCK-LABEL: llvm.func internal @tw_block_f32_1
// BLOCK-COUNT-2: llvm.intr.fma
// BLOCK-NOT: llvm.intr.fma
tile.kernel @product(%a: !tile.buffer<f32>, %p: !tile.buffer<f32>, %bias: !tile.buffer<f32>, %c: !tile.buffer<f32>, %m: index, %n: index, %k: index) {
  %zero = arith.constant 0 : index
  tile.grid () in () {
    tile.contract %a[%zero] strides [%k, 1], %p[%zero] shape [%m, %n, %k] : !tile.buffer<f32>, !tile.buffer<f32> {
    ^bb0(%acc: tensor<16xf32>, %i: index, %j: index, %valid: index):
      %row = arith.muli %i, %n : index
      %at = arith.addi %row, %j : index
      %x = tile.load %bias[%j] strides [1] valid [%valid] : !tile.buffer<f32> -> tensor<16xf32>
      %y = arith.addf %acc, %x : tensor<16xf32>
      tile.store %y, %c[%at] strides [1] valid [%valid] : tensor<16xf32>, !tile.buffer<f32>
    }
  }
}
