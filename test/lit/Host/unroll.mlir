// RUN: tilewright-opt %s -tile-unroll -cse | FileCheck %s

// CHECK-LABEL: tile.kernel @rows
tile.kernel @rows(%x: !tile.buffer<f32>, %n: index, %m: index, %k: index) {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  tile.grid (%i) in (%n) {
    %zero = arith.constant dense<0.0> : tensor<2x8xf32>
    // A loop carries one value per row.
    // CHECK: scf.for {{.*}} iter_args(%[[A:.*]] = %{{.*}}, %[[B:.*]] = %{{.*}}) -> (tensor<8xf32>, tensor<8xf32>)
    %s = scf.for %j = %c0 to %n step %c2 iter_args(%a = %zero) -> tensor<2x8xf32> {
      // Row 1 is valid only if two rows are.
      // CHECK: %[[FIRST:.*]] = arith.cmpi sgt, %{{.*}}, %c0
      // CHECK: %[[V0:.*]] = arith.select %[[FIRST]], %{{.*}}, %c0
      // CHECK: tile.load %{{.*}}[%{{.*}}] strides [1] valid [%[[V0]]] : !tile.buffer<f32> -> tensor<8xf32>
      // CHECK: %[[SECOND:.*]] = arith.cmpi sgt, %{{.*}}, %c1
      // CHECK: %[[V1:.*]] = arith.select %[[SECOND]]
      // CHECK: tile.load {{.*}} valid [%[[V1]]]
      %t = tile.load %x[%j] strides [%n, 1] valid [%m, %k] : !tile.buffer<f32> -> tensor<2x8xf32>
      // CHECK-COUNT-2: arith.addf %{{.*}} : tensor<8xf32>
      %b = arith.addf %a, %t : tensor<2x8xf32>
      scf.yield %b : tensor<2x8xf32>
    }
    // Rows are added before lanes are.
    // CHECK: %[[SUM:.*]] = arith.addf %{{.*}} : tensor<8xf32>
    // CHECK: tile.reduce <add> %[[SUM]] : tensor<8xf32>
    %r = tile.reduce <add> %s : tensor<2x8xf32>
    tile.store %r, %x[%i] : f32, !tile.buffer<f32>
  }
}
