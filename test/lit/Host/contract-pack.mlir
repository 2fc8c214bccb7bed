// A panel is packed by one function, which chooses among rows, transposes and single elements by the strides at run time.
// RUN: tilewright-opt %s -tile-lower-contract=level=avx512bf16 | FileCheck %s
// RUN: not tilewright-opt %s -tile-lower-contract=level=avx2 2>&1 | FileCheck %s --check-prefix=REFUSED

// REFUSED: error: 'tile.pack' op has panels of 'bf16': operands of 'bf16' are packed as f32 on avx2

// CHECK-LABEL: tile.kernel @pack
// CHECK: arith.cmpi sgt
// CHECK: scf.if
// CHECK: llvm.call @tw_pack_bf16
// CHECK-NOT: tile.pack
// Rows are interleaved in pairs; pairs that lie together are transposed as words.
// CHECK-LABEL: llvm.func internal @tw_pack_bf16
// CHECK: llvm.shufflevector {{.*}} [0, 32, 1, 33, 2, 34
// CHECK: llvm.intr.masked.load
// CHECK: llvm.intr.prefetch
// CHECK: llvm.shufflevector {{.*}} [0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29] : vector<16xi32>
tile.kernel @pack(%w: !tile.buffer<bf16>, %p: !tile.buffer<bf16>, %k: index, %n: index, %sk: index, %sn: index) {
  %zero = arith.constant 0 : index
  tile.grid () in () {
    tile.pack %w[%zero] strides [%sk, %sn] shape [%k, %n], %p[%zero] : !tile.buffer<bf16>, !tile.buffer<bf16>
  }
}
