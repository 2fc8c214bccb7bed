// RUN: tilewright-opt %s -tile-to-vector=level=avx512 | FileCheck %s --check-prefixes=CHECK,WIDE
// RUN: tilewright-opt %s -tile-to-vector=level=x86-64 | FileCheck %s --check-prefixes=CHECK,NARROW

// CHECK-LABEL: tile.kernel @contiguous
tile.kernel @contiguous(%x: !tile.buffer<f32>, %y: !tile.buffer<f32>, %n: index, %v: index) {
  tile.grid (%i) in (%n) {
    // Without a valid extent no mask.
    // CHECK: %[[P:.*]] = tile.address %{{.*}} : !tile.buffer<f32> -> !llvm.ptr
    // CHECK: %[[A:.*]] = llvm.getelementptr %[[P]][%{{.*}}] : (!llvm.ptr, i64) -> !llvm.ptr, f32
    // CHECK-NEXT: %[[T:.*]] = llvm.load %[[A]] {alignment = 4 : i64} : !llvm.ptr -> vector<16xf32>
    %t = tile.load %x[%i] strides [1] : !tile.buffer<f32> -> tensor<16xf32>
    // CHECK: %[[S:.*]] = arith.addf %[[T]], %[[T]] : vector<16xf32>
    %s = arith.addf %t, %t : tensor<16xf32>
    // CHECK: llvm.store %[[S]], %{{.*}} {alignment = 4 : i64} : vector<16xf32>, !llvm.ptr
    tile.store %s, %y[%i] strides [1] : tensor<16xf32>, !tile.buffer<f32>
  }
}

// CHECK-LABEL: tile.kernel @tail
tile.kernel @tail(%x: !tile.buffer<f32>, %y: !tile.buffer<f32>, %n: index, %v: index) {
  tile.grid (%i) in (%n) {
    // WIDE: arith.cmpi slt
    // WIDE: llvm.intr.masked.load
    // NARROW: scf.if %{{.*}} -> (vector<16xf32>)
    // NARROW: llvm.load %{{.*}} -> vector<16xf32>
    // NARROW: else
    // NARROW: scf.for
    // NARROW: llvm.load %{{.*}} -> f32
    %t = tile.load %x[%i] strides [1] valid [%v] fill 1.0 : f32 : !tile.buffer<f32> -> tensor<16xf32>
    // WIDE: llvm.intr.masked.store
    // NARROW: scf.if
    tile.store %t, %y[%i] strides [1] valid [%v] : tensor<16xf32>, !tile.buffer<f32>
  }
}

// CHECK-LABEL: tile.kernel @strided
tile.kernel @strided(%x: !tile.buffer<f32>, %y: !tile.buffer<f32>, %n: index, %s: index) {
  tile.grid (%i) in (%n) {
    // One load, spread.
    // CHECK: %[[L:.*]] = llvm.load %{{.*}} : !llvm.ptr -> f32
    // CHECK-NEXT: vector.splat %[[L]] : vector<16xf32>
    %b = tile.load %x[%i] strides [0] : !tile.buffer<f32> -> tensor<16xf32>
    // WIDE: llvm.intr.masked.gather
    // NARROW-COUNT-16: vector.insert
    %t = tile.load %x[%i] strides [%s] : !tile.buffer<f32> -> tensor<16xf32>
    %u = arith.addf %b, %t : tensor<16xf32>
    // WIDE: llvm.intr.masked.scatter
    // NARROW-COUNT-16: llvm.store
    tile.store %u, %y[%i] strides [%s] : tensor<16xf32>, !tile.buffer<f32>
  }
}

// CHECK-LABEL: tile.kernel @types
tile.kernel @types(%f: !tile.buffer<i1>, %h: !tile.buffer<bf16>, %n: index) {
  tile.grid (%i) in (%n) {
    // bool is a byte, true where it is not zero.
    // CHECK: %[[B:.*]] = llvm.load %{{.*}} -> vector<16xi8>
    // CHECK: arith.cmpi ne, %[[B]], %{{.*}} : vector<16xi8>
    %b = tile.load %f[%i] strides [1] : !tile.buffer<i1> -> tensor<16xi1>
    // CHECK: arith.extui %{{.*}} : vector<16xi1> to vector<16xi8>
    tile.store %b, %f[%i] strides [1] : tensor<16xi1>, !tile.buffer<i1>
    // bf16 travels as integers.
    // CHECK: %[[I:.*]] = llvm.load %{{.*}} -> vector<16xi16>
    // CHECK: arith.bitcast %[[I]] : vector<16xi16> to vector<16xbf16>
    %t = tile.load %h[%i] strides [1] : !tile.buffer<bf16> -> tensor<16xbf16>
    tile.store %t, %h[%i] strides [1] : tensor<16xbf16>, !tile.buffer<bf16>
  }
}

// CHECK-LABEL: tile.kernel @control
tile.kernel @control(%x: !tile.buffer<f32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  // CHECK: arith.constant dense<{{.*}}> : vector<4xf32>
  %start = arith.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  tile.grid (%i) in (%n) {
    // CHECK: scf.for {{.*}} iter_args(%{{.*}} = %{{.*}}) -> (vector<4xf32>)
    %r = scf.for %j = %c0 to %n step %c1 iter_args(%a = %start) -> tensor<4xf32> {
      %b = arith.mulf %a, %a : tensor<4xf32>
      scf.yield %b : tensor<4xf32>
    }
    // Halves are combined: log2(lanes) steps.
    // CHECK: vector.shuffle %{{.*}} [0, 1]
    // CHECK: vector.shuffle %{{.*}} [2, 3]
    // CHECK: arith.addf %{{.*}} : vector<2xf32>
    // CHECK: arith.addf %{{.*}} : vector<1xf32>
    %s = tile.reduce <add> %r : tensor<4xf32>
    tile.store %s, %x[%i] : f32, !tile.buffer<f32>
  }
}

// CHECK-LABEL: tile.kernel @checked
tile.kernel @checked(%x: !tile.buffer<i64>, %n: index) {
  tile.grid (%i) in (%n) {
    %t = tile.load %x[%i] strides [1] : !tile.buffer<i64> -> tensor<8xi64>
    // CHECK: arith.cmpi ult
    // CHECK: scf.if
    // CHECK: tile.record_error %{{.*}}, %{{.*}} site 2
    // CHECK: arith.select
    %c = tile.check_index %t below %n site 2 : tensor<8xi64>
    tile.store %c, %x[%i] strides [1] : tensor<8xi64>, !tile.buffer<i64>
  }
}
