// RUN: tilewright-opt %s -split-input-file -verify-diagnostics

// expected-error@+1 {{has 0 grids: a kernel holds exactly one tile.grid, as its last operation}}
tile.kernel @no_grid(%x: !tile.buffer<f32>) {
  %c = arith.constant 0 : index
}

// -----

// expected-error@+1 {{has 2 grids}}
tile.kernel @two_grids(%x: !tile.buffer<f32>) {
  tile.grid () in () {
  }
  tile.grid () in () {
  }
}

// -----

// expected-error@+1 {{argument 1 is a buffer after an integer: buffers come first}}
tile.kernel @order(%n: index, %x: !tile.buffer<f32>) {
  tile.grid () in () {
  }
}

// -----

// expected-error@+1 {{argument 0 has type 'i64': arguments are buffers and, after these, integers of type index}}
tile.kernel @argument(%n: i64) {
  tile.grid () in () {
  }
}

// -----

tile.kernel @indices(%n: index) {
  // expected-error@+1 {{has 1 indices for 2 sizes}}
  tile.grid (%i) in (%n, %n) {
  }
}

// -----

// expected-error@+1 {{a buffer holds f32, f64, bf16, f16 or signless integers of 1, 8, 16, 32 or 64 bits, not 'si8'}}
tile.kernel @signed(%x: !tile.buffer<si8>) {
  tile.grid () in () {
  }
}

// -----

tile.kernel @elements(%x: !tile.buffer<f32>, %n: index) {
  tile.grid (%i) in (%n) {
    // expected-error@+1 {{gives elements of type 'f64' but the buffer holds 'f32': convert the tile with an arith operation}}
    %t = tile.load %x[%i] strides [1] : !tile.buffer<f32> -> tensor<8xf64>
  }
}

// -----

tile.kernel @stores(%x: !tile.buffer<f32>, %t: index) {
  tile.grid (%i) in (%t) {
    %c = arith.constant dense<0> : tensor<8xi32>
    // expected-error@+1 {{writes elements of type 'i32' but the buffer holds 'f32'}}
    tile.store %c, %x[%i] strides [1] : tensor<8xi32>, !tile.buffer<f32>
  }
}

// -----

tile.kernel @dynamic(%x: !tile.buffer<f32>, %n: index) {
  tile.grid (%i) in (%n) {
    // expected-error@+1 {{a tile or a scalar}}
    %t = tile.load %x[%i] strides [1] : !tile.buffer<f32> -> tensor<?xf32>
  }
}

// -----

tile.kernel @strides(%x: !tile.buffer<f32>, %n: index) {
  tile.grid (%i) in (%n) {
    // expected-error@+1 {{has 1 strides for a tile of rank 2 ('tensor<2x8xf32>')}}
    %t = tile.load %x[%i] strides [1] : !tile.buffer<f32> -> tensor<2x8xf32>
  }
}

// -----

tile.kernel @valid(%x: !tile.buffer<f32>, %n: index) {
  tile.grid (%i) in (%n) {
    // expected-error@+1 {{has 1 valid extents for a tile of rank 2 ('tensor<2x8xf32>'): give one for every dimension or none}}
    %t = tile.load %x[%i] strides [8, 1] valid [%n] : !tile.buffer<f32> -> tensor<2x8xf32>
  }
}

// -----

tile.kernel @fill(%x: !tile.buffer<f32>, %n: index) {
  tile.grid (%i) in (%n) {
    // expected-error@+1 {{has a fill value but no valid extent, so nothing is ever filled}}
    %t = tile.load %x[%i] strides [1] fill 0.0 : f32 : !tile.buffer<f32> -> tensor<8xf32>
  }
}

// -----

tile.kernel @fill_type(%x: !tile.buffer<f32>, %n: index) {
  tile.grid (%i) in (%n) {
    // expected-error@+1 {{fills with a value of type 'i32', the tile has elements of type 'f32'}}
    %t = tile.load %x[%i] strides [1] valid [%n] fill 0 : i32 : !tile.buffer<f32> -> tensor<8xf32>
  }
}

// -----

tile.kernel @gather(%x: !tile.buffer<f32>, %n: index) {
  tile.grid (%i) in (%n) {
    %c = arith.constant dense<0> : tensor<4xi64>
    // expected-error@+1 {{has indices of shape 'tensor<4xi64>' for a tile 'tensor<8xf32>'}}
    %t = tile.gather %x[%i] indices %c stride 1 : tensor<4xi64>, !tile.buffer<f32> -> tensor<8xf32>
  }
}

// -----

tile.kernel @reduce(%x: !tile.buffer<f32>, %n: index) {
  tile.grid (%i) in (%n) {
    %t = tile.load %x[%i] strides [1] : !tile.buffer<f32> -> tensor<8xf32>
    // expected-error@+1 {{cannot combine elements of type 'f32' by xor (floats: add mul max min maxnum minnum)}}
    %r = tile.reduce <xor> %t : tensor<8xf32>
  }
}

// -----

tile.kernel @splat(%n: index) {
  tile.grid (%i) in (%n) {
    // expected-error@+1 {{makes a tile 'tensor<8xf32>' of a scalar 'index'}}
    %t = tile.splat %i : index -> tensor<8xf32>
  }
}

// -----

tile.kernel @pack(%w: !tile.buffer<f32>, %p: !tile.buffer<bf16>, %n: index) {
  tile.grid () in () {
    // expected-error@+1 {{packs '!tile.buffer<f32>' into '!tile.buffer<bf16>': the types must agree}}
    tile.pack %w[%n] strides [%n, 1] shape [%n, %n], %p[%n] : !tile.buffer<f32>, !tile.buffer<bf16>
  }
}

// -----

tile.kernel @contract_arguments(%a: !tile.buffer<f32>, %n: index) {
  tile.grid () in () {
    // expected-error@+1 {{region takes (tensor<Wxf32>, index, index, index): accumulator, row, column, valid columns}}
    tile.contract %a[%n] strides [%n, 1], %a[%n] shape [%n, %n, %n] : !tile.buffer<f32>, !tile.buffer<f32> {
    ^bb0(%acc: tensor<16xf32>, %i: index):
    }
  }
}

// -----

tile.kernel @contract_effects(%a: !tile.buffer<f32>, %n: index) {
  tile.grid () in () {
    tile.contract %a[%n] strides [%n, 1], %a[%n] shape [%n, %n, %n] : !tile.buffer<f32>, !tile.buffer<f32> {
    ^bb0(%acc: tensor<16xf32>, %i: index, %j: index, %valid: index):
      // expected-error@+1 {{stands in the epilogue of a tile.contract, which may load and compute and has no side effects but tile.store}}
      %k = tile.check_index %i below %n site 0 : index
    }
  }
}
