// RUN: tilewright-opt %s | tilewright-opt | FileCheck %s
// RUN: tilewright-opt %s -mlir-print-op-generic | tilewright-opt | FileCheck %s

// CHECK-LABEL: tile.kernel @bias_gelu(%{{.*}}: !tile.buffer<f32>, %{{.*}}: !tile.buffer<f32>, %{{.*}}: !tile.buffer<f32>, %{{.*}}: index, %{{.*}}: index) {
tile.kernel @bias_gelu(%x: !tile.buffer<f32>, %b: !tile.buffer<f32>, %y: !tile.buffer<f32>, %rows: index, %cols: index) {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  // CHECK: tile.grid (%[[I:.*]]) in (%{{.*}}) {
  tile.grid (%i) in (%rows) {
    %row = arith.muli %i, %cols : index
    scf.for %j = %c0 to %cols step %c16 {
      %left = arith.subi %cols, %j : index
      %o = arith.addi %row, %j : index
      // CHECK: tile.load %{{.*}}[%{{.*}}] strides [1] valid [%{{.*}}] : !tile.buffer<f32> -> tensor<16xf32>
      %xt = tile.load %x[%o] strides [1] valid [%left] : !tile.buffer<f32> -> tensor<16xf32>
      // CHECK: tile.load %{{.*}}[%{{.*}}] strides [1] valid [%{{.*}}] fill 1.000000e+00 : f32 : !tile.buffer<f32> -> tensor<16xf32>
      %bt = tile.load %b[%j] strides [1] valid [%left] fill 1.0 : f32 : !tile.buffer<f32> -> tensor<16xf32>
      %s  = arith.addf %xt, %bt : tensor<16xf32>
      // CHECK: tile.store %{{.*}}, %{{.*}}[%{{.*}}] strides [1] valid [%{{.*}}] : tensor<16xf32>, !tile.buffer<f32>
      tile.store %s, %y[%o] strides [1] valid [%left] : tensor<16xf32>, !tile.buffer<f32>
    }
  }
}

// CHECK-LABEL: tile.kernel @every_op
tile.kernel @every_op(%x: !tile.buffer<f32>, %f: !tile.buffer<i1>, %ids: !tile.buffer<i64>, %n: index, %ld: index) {
  // CHECK: tile.grid (%{{.*}}, %{{.*}}) in (%{{.*}}, %{{.*}})
  tile.grid (%i, %j) in (%n, %ld) {
    // CHECK: tile.load %{{.*}}[%{{.*}}] : !tile.buffer<f32> -> f32
    %s = tile.load %x[%i] : !tile.buffer<f32> -> f32
    // CHECK: strides [%{{.*}}, 1] valid [%{{.*}}, %{{.*}}] : !tile.buffer<i1> -> tensor<4x8xi1>
    %m = tile.load %f[%i] strides [%ld, 1] valid [%i, %j] : !tile.buffer<i1> -> tensor<4x8xi1>
    %k = tile.load %ids[%i] strides [1] : !tile.buffer<i64> -> tensor<8xi64>
    // CHECK: tile.check_index %{{.*}} below %{{.*}} site 3 valid [%{{.*}}] : tensor<8xi64>
    %c = tile.check_index %k below %n site 3 valid [%j] : tensor<8xi64>
    // CHECK: tile.gather %{{.*}}[%{{.*}}] indices %{{.*}} stride %{{.*}} valid [%{{.*}}] : tensor<8xi64>, !tile.buffer<f32> -> tensor<8xf32>
    %g = tile.gather %x[%i] indices %c stride %ld valid [%j] : tensor<8xi64>, !tile.buffer<f32> -> tensor<8xf32>
    // CHECK: tile.scatter %{{.*}}, %{{.*}}[%{{.*}}] indices %{{.*}} stride 2 : tensor<8xf32>, tensor<8xi64>, !tile.buffer<f32>
    tile.scatter %g, %x[%i] indices %c stride 2 : tensor<8xf32>, tensor<8xi64>, !tile.buffer<f32>
    // CHECK: tile.reduce <max> %{{.*}} valid [%{{.*}}] : tensor<8xf32>
    %r = tile.reduce <max> %g valid [%j] : tensor<8xf32>
    // CHECK: tile.splat %{{.*}} : f32 -> tensor<8xf32>
    %t = tile.splat %r : f32 -> tensor<8xf32>
    // CHECK: tile.iota : tensor<2x8xi64>
    %q = tile.iota : tensor<2x8xi64>
    // CHECK: tile.scratch[%{{.*}}] : !tile.buffer<bf16>
    %w = tile.scratch [%ld] : !tile.buffer<bf16>
    // CHECK: tile.math <erfc> %{{.*}} : tensor<8xf32>
    %e = tile.math <erfc> %t : tensor<8xf32>
    // CHECK: tile.record_error %{{.*}}, %{{.*}} site 3
    tile.record_error %i, %j site 3
    // CHECK: tile.address %{{.*}} : !tile.buffer<bf16> -> !llvm.ptr
    %p = tile.address %w : !tile.buffer<bf16> -> !llvm.ptr
  }
}

// CHECK-LABEL: tile.kernel @linear
tile.kernel @linear(%a: !tile.buffer<f32>, %w: !tile.buffer<f32>, %p: !tile.buffer<f32>, %y: !tile.buffer<f32>, %m: index, %n: index, %k: index) {
  %c0 = arith.constant 0 : index
  tile.grid () in () {
    // CHECK: tile.pack %{{.*}}[%{{.*}}] strides [1, %{{.*}}] shape[%{{.*}}, %{{.*}}], %{{.*}}[%{{.*}}] : !tile.buffer<f32>, !tile.buffer<f32>
    tile.pack %w[%c0] strides [1, %k] shape [%k, %n], %p[%c0] : !tile.buffer<f32>, !tile.buffer<f32>
    // CHECK: tile.contract %{{.*}}[%{{.*}}] strides [%{{.*}}, 1], %{{.*}}[%{{.*}}] shape[%{{.*}}, %{{.*}}, %{{.*}}] : !tile.buffer<f32>, !tile.buffer<f32> {
    // CHECK-NEXT: ^bb0(%[[ACC:.*]]: tensor<16xf32>, %{{.*}}: index, %{{.*}}: index, %{{.*}}: index):
    tile.contract %a[%c0] strides [%k, 1], %p[%c0] shape [%m, %n, %k] : !tile.buffer<f32>, !tile.buffer<f32> {
    ^bb0(%acc: tensor<16xf32>, %i: index, %j: index, %valid: index):
      %row = arith.muli %i, %n : index
      %o = arith.addi %row, %j : index
      // CHECK: tile.store %[[ACC]]
      tile.store %acc, %y[%o] strides [1] valid [%valid] : tensor<16xf32>, !tile.buffer<f32>
    }
  }
}
