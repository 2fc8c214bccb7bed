// RUN: tilewright-opt %s -tile-to-vector -tile-lower-grid | FileCheck %s

// CHECK-LABEL: func.func @two_dims(%{{.*}}: !llvm.ptr, %{{.*}}: !llvm.ptr, %{{.*}}: i64, %{{.*}}: i64, %{{.*}}: !llvm.ptr) -> i64
tile.kernel @two_dims(%x: !tile.buffer<f32>, %m: index, %n: index) {
  // Buffers and integers are loaded once.
  // CHECK: llvm.load %{{.*}} invariant
  // CHECK: llvm.load %{{.*}} invariant
  %c1 = arith.constant 1 : index
  // Divisions for the first point only; the unit dimension has no index.
  // CHECK: arith.remui
  // CHECK: arith.divui
  // CHECK: scf.for {{.*}} iter_args(%{{.*}} = %{{.*}}, %{{.*}} = %{{.*}}) -> (index, index)
  // CHECK-NOT: remui
  tile.grid (%i, %u, %j) in (%m, %c1, %n) {
    %o = arith.addi %i, %j : index
    %t = tile.load %x[%o] : !tile.buffer<f32> -> f32
    tile.store %t, %x[%u] : f32, !tile.buffer<f32>
    // CHECK: arith.cmpi eq
    // CHECK: scf.yield
  }
  // CHECK: return
}

// CHECK-LABEL: func.func @one_dim
tile.kernel @one_dim(%x: !tile.buffer<f32>, %m: index) {
  // CHECK-NOT: iter_args
  // CHECK-NOT: divui
  tile.grid (%i) in (%m) {
    %t = tile.load %x[%i] : !tile.buffer<f32> -> f32
    tile.store %t, %x[%i] : f32, !tile.buffer<f32>
  }
  // CHECK: %[[ZERO:.*]] = arith.constant 0 : i64
  // CHECK: return %[[ZERO]]
}

// CHECK-LABEL: func.func @errors
tile.kernel @errors(%x: !tile.buffer<i64>, %m: index) {
  tile.grid (%i) in (%m) {
    // CHECK: scf.if
    // CHECK-COUNT-3: llvm.store
    // CHECK-NEXT: tile.leave
    %t = tile.load %x[%i] : !tile.buffer<i64> -> i64
    %c = tile.check_index %t below %m site 7 : i64
    tile.store %c, %x[%i] : i64, !tile.buffer<i64>
  }
  // CHECK: return %{{.*}} : i64
}
