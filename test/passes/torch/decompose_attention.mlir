// Attention becomes two products and a softmax; masks become selects.
// RUN: deplodock-opt %s -p decompose,dce --split-input-file | filecheck %s

// Two heads of the query share one of the key and value; key j counts for query i if j <= i.
// CHECK-LABEL: func.func @causal
// CHECK-NEXT:    %[[K:.*]] = tensor_ext.index_map %k affine_map<(d0, d1, d2, d3) -> (d0, (d1 floordiv 2), d2, d3)> : tensor<1x2x5x8xf32> -> tensor<1x4x5x8xf32>
// CHECK-NEXT:    %[[V:.*]] = tensor_ext.index_map %v affine_map<(d0, d1, d2, d3) -> (d0, (d1 floordiv 2), d2, d3)> : tensor<1x2x5x8xf32> -> tensor<1x4x5x8xf32>
// CHECK:         %[[QK:.*]] = tensor_ext.reduce {arith.addf} %product dims [4] : tensor<1x4x3x5x8xf32> -> tensor<1x4x3x5xf32>
// CHECK:         %[[S:.*]] = tensor_ext.elementwise {arith.mulf} %[[QK]], %{{.*}} : tensor<1x4x3x5xf32>
// CHECK-NEXT:    %[[ROW:.*]] = tensor_ext.iota dim 2 : tensor<1x4x3x5xi64>
// CHECK-NEXT:    %[[COLUMN:.*]] = tensor_ext.iota dim 3 : tensor<1x4x3x5xi64>
// CHECK-NEXT:    %mask = tensor_ext.elementwise %[[COLUMN]], %[[ROW]]
// CHECK-NEXT:      arith.cmpi sle
// CHECK:         %masked = tensor_ext.elementwise {arith.select} %mask, %[[S]], %{{.*}}
// CHECK-NEXT:    %max = tensor_ext.reduce {arith.maximumf} %masked dims [3]
// CHECK:         %sum = tensor_ext.reduce {arith.addf} %exp dims [3]
// CHECK:         %[[P:.*]] = tensor_ext.elementwise %exp
// CHECK-NEXT:      arith.divf %{{.*}}, %{{.*}} fastmath<reassoc,arcp> : f32
// CHECK:         tensor_ext.reduce {arith.addf} %{{.*}} dims [4] : tensor<1x4x3x8x5xf32> -> tensor<1x4x3x8xf32>
func.func @causal(%q: tensor<1x4x3x8xf32>, %k: tensor<1x2x5x8xf32>, %v: tensor<1x2x5x8xf32>) -> tensor<1x4x3x8xf32> {
  %0 = torch.aten.scaled_dot_product_attention %q, %k, %v {is_causal = true, enable_gqa = true} : tensor<1x4x3x8xf32>, tensor<1x2x5x8xf32>, tensor<1x2x5x8xf32> -> tensor<1x4x3x8xf32>
  func.return %0 : tensor<1x4x3x8xf32>
}

// -----

// Rows in which nothing counts give 0: their maximum is replaced by 0 and their sum by 1.
// CHECK-LABEL: func.func @masked
// CHECK:         %mask = tensor_ext.elementwise {arith.select} %m
// CHECK:         %masked = tensor_ext.elementwise %scores, %mask
// CHECK-NEXT:      arith.addf %{{.*}} fastmath<nnan> : f32
// CHECK:         %dead = tensor_ext.elementwise %max
// CHECK-NEXT:      arith.cmpf oeq
// CHECK:         %max_1 = tensor_ext.elementwise {arith.select} %dead
// CHECK:         %sum_1 = tensor_ext.elementwise {arith.select} %dead
func.func @masked(%q: tensor<3x8xf32>, %k: tensor<5x8xf32>, %m: tensor<3x5xi1>) -> tensor<3x8xf32> {
  %0 = torch.aten.scaled_dot_product_attention %q, %k, %k, %m : tensor<3x8xf32>, tensor<5x8xf32>, tensor<5x8xf32>, tensor<3x5xi1> -> tensor<3x8xf32>
  func.return %0 : tensor<3x8xf32>
}
