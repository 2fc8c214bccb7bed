// RUN: tilewright-opt %s -split-input-file -verify-diagnostics -tile-to-vector

tile.kernel @tensor_op(%x: !tile.buffer<f32>, %n: index) {
  tile.grid (%i) in (%n) {
    %t = tile.load %x[%i] strides [1] : !tile.buffer<f32> -> tensor<16xf32>
    // expected-error@+1 {{cannot work on tiles on the host: tiles are for tile, arith, math and scf operations}}
    %c = tensor.cast %t : tensor<16xf32> to tensor<?xf32>
  }
}

// -----

tile.kernel @rank(%x: !tile.buffer<f32>, %n: index) {
  tile.grid (%i) in (%n) {
    // expected-error@+1 {{has a tile of rank 2: run tile-unroll first}}
    %t = tile.load %x[%i] strides [16, 1] : !tile.buffer<f32> -> tensor<2x16xf32>
  }
}
