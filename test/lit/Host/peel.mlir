// RUN: tilewright-opt %s -tile-peel-tails -canonicalize | FileCheck %s

// CHECK-LABEL: tile.kernel @peeled
tile.kernel @peeled(%x: !tile.buffer<f32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c8 = arith.constant 8 : index
  tile.grid () in () {
    // CHECK: scf.for
    // CHECK-NOT: valid
    // CHECK: tile.store
    // CHECK-NOT: valid
    // CHECK: scf.if
    // CHECK: tile.load {{.*}} valid
    // CHECK: tile.store {{.*}} valid
    scf.for %j = %c0 to %n step %c8 {
      %left = arith.subi %n, %j : index
      %t = tile.load %x[%j] strides [1] valid [%left] fill 1.0 : f32 : !tile.buffer<f32> -> tensor<8xf32>
      tile.store %t, %x[%j] strides [1] valid [%left] : tensor<8xf32>, !tile.buffer<f32>
    }
  }
}

// A loop that starts where another one ended is a tail already.
// CHECK-LABEL: tile.kernel @tail
tile.kernel @tail(%x: !tile.buffer<f32>, %m: index, %n: index) {
  %c0 = arith.constant 0 : index
  %c8 = arith.constant 8 : index
  %c32 = arith.constant 32 : index
  tile.grid () in () {
    scf.for %j = %c0 to %m step %c32 {
      %t = tile.load %x[%j] strides [1] : !tile.buffer<f32> -> tensor<32xf32>
      tile.store %t, %x[%j] strides [1] : tensor<32xf32>, !tile.buffer<f32>
    }
    // CHECK-NOT: scf.if
    scf.for %j = %m to %n step %c8 {
      %left = arith.subi %n, %j : index
      %t = tile.load %x[%j] strides [1] valid [%left] : !tile.buffer<f32> -> tensor<8xf32>
      tile.store %t, %x[%j] strides [1] valid [%left] : tensor<8xf32>, !tile.buffer<f32>
    }
  }
}

// The tile is longer than a step: its tail is not this loop's.
// CHECK-LABEL: tile.kernel @overlapping
tile.kernel @overlapping(%x: !tile.buffer<f32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c8 = arith.constant 8 : index
  tile.grid () in () {
    // CHECK-NOT: scf.if
    scf.for %j = %c0 to %n step %c8 {
      %left = arith.subi %n, %j : index
      %t = tile.load %x[%j] strides [1] valid [%left] : !tile.buffer<f32> -> tensor<16xf32>
      tile.store %t, %x[%j] strides [1] valid [%left] : tensor<16xf32>, !tile.buffer<f32>
    }
  }
}
