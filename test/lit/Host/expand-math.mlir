// RUN: tilewright-opt %s -expand-math=level=avx512 | FileCheck %s --check-prefixes=CHECK,WIDE
// RUN: tilewright-opt %s -expand-math=level=x86-64 | FileCheck %s --check-prefixes=CHECK,NARROW

// CHECK: llvm.func @cos(f64) -> f64
// CHECK: llvm.func @exp(f64) -> f64

// CHECK-LABEL: func.func @exp_f32
// CHECK-NOT: math.exp
// WIDE: math.fma
// NARROW-NOT: math.fma
func.func @exp_f32(%x: vector<16xf32>) -> vector<16xf32> {
  %y = math.exp %x : vector<16xf32>
  return %y : vector<16xf32>
}

// Double precision calls libm, in a loop over memory of the function's entry.
// CHECK-LABEL: func.func @exp_f64
// CHECK-NEXT: llvm.mlir.constant
// CHECK-NEXT: llvm.alloca
// CHECK: scf.for
// CHECK: llvm.call @exp(%{{.*}}) : (f64) -> f64
func.func @exp_f64(%x: vector<8xf64>) -> vector<8xf64> {
  %y = math.exp %x : vector<8xf64>
  return %y : vector<8xf64>
}

// CHECK-LABEL: func.func @cos_scalar
// CHECK: scf.if
// CHECK: llvm.call @cos
// CHECK: else
func.func @cos_scalar(%x: f32) -> f32 {
  %y = math.cos %x : f32
  return %y : f32
}

// NaN wins: a compare of x with itself.
// CHECK-LABEL: func.func @maximum
// CHECK: arith.cmpf ogt, %[[X:.*]], %[[Y:.*]] :
// CHECK: arith.cmpf uno, %[[X]], %[[X]]
func.func @maximum(%x: vector<16xf32>, %y: vector<16xf32>) -> vector<16xf32> {
  %z = arith.maximumf %x, %y : vector<16xf32>
  return %z : vector<16xf32>
}

// CHECK-LABEL: func.func @floor
// WIDE: math.floor
// NARROW-NOT: math.floor
func.func @floor(%x: vector<16xf32>) -> vector<16xf32> {
  %y = math.floor %x : vector<16xf32>
  return %y : vector<16xf32>
}

// bf16 computes in f32 and moves as integers.
// CHECK-LABEL: func.func @bf16_add(%{{.*}}: vector<16xi16>, %{{.*}}: vector<16xi16>)
// CHECK: arith.addf %{{.*}} : vector<16xf32>
// CHECK-NOT: bf16
// CHECK: return
func.func @bf16_add(%p: !llvm.ptr, %x: vector<16xi16>, %y: vector<16xi16>) -> vector<16xi16> {
  %a = arith.bitcast %x : vector<16xi16> to vector<16xbf16>
  %b = arith.bitcast %y : vector<16xi16> to vector<16xbf16>
  %c = arith.addf %a, %b : vector<16xbf16>
  %d = arith.bitcast %c : vector<16xbf16> to vector<16xi16>
  return %d : vector<16xi16>
}

// F16C converts f16; baseline does on integers.
// CHECK-LABEL: func.func @f16_widen
// WIDE: arith.extf %{{.*}} : vector<16xf16> to vector<16xf32>
// NARROW-NOT: arith.extf
// CHECK: return
func.func @f16_widen(%x: vector<16xi16>) -> vector<16xf32> {
  %a = arith.bitcast %x : vector<16xi16> to vector<16xf16>
  %b = arith.extf %a : vector<16xf16> to vector<16xf32>
  return %b : vector<16xf32>
}
