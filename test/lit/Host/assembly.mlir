// RUN: tilewright-opt --emit=asm --level=avx512 %s | FileCheck %s --check-prefix=AVX512
// RUN: tilewright-opt --emit=asm --level=avx2 %s | FileCheck %s --check-prefix=AVX2
// RUN: tilewright-opt --emit=asm --level=x86-64 %s | FileCheck %s --check-prefix=BASE
// RUN: tilewright-opt --emit=object --level=avx512 %s -o %t.o && llvm-nm %t.o | FileCheck %s --check-prefix=SYMBOLS

// Whole vectors without masks, then one masked step; nothing is spilled and nothing is called.
// AVX512-LABEL: scale:
// AVX512-NOT: call
// AVX512: vmulps ({{.*}}), %zmm{{.*}}
// AVX512: vmovups %zmm{{[0-9]+}}, ({{.*}}){{$}}
// AVX512: {%k
// AVX2-LABEL: scale:
// AVX2: vmulps {{.*}}, %ymm
// AVX2: vmaskmovps
// BASE-LABEL: scale:
// BASE: mulps {{.*}}%xmm
// SYMBOLS-NOT: {{ U }}
// SYMBOLS: T scale
tile.kernel @scale(%x: !tile.buffer<f32>, %y: !tile.buffer<f32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %three = arith.constant dense<3.0> : tensor<16xf32>
  tile.grid () in () {
    scf.for %j = %c0 to %n step %c16 {
      %left = arith.subi %n, %j : index
      %t = tile.load %x[%j] strides [1] valid [%left] : !tile.buffer<f32> -> tensor<16xf32>
      %s = arith.mulf %t, %three : tensor<16xf32>
      tile.store %s, %y[%j] strides [1] valid [%left] : tensor<16xf32>, !tile.buffer<f32>
    }
  }
}
