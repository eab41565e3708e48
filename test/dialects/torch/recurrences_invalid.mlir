// The operands of recurrent layers fit each other.
// RUN: deplodock-opt %s --split-input-file --verify-diagnostics | filecheck %s

// CHECK: the input has 3 dimensions, and so has each of 1 states, 2 the first of them
func.func @units(%x: tensor<5x3x4xf32>, %h: tensor<1x3x8xf32>, %w: tensor<8x4xf32>) {
  %y, %n = torch.aten.rnn_tanh.input %x, %h, %w {has_biases = false, num_layers = 2, dropout = 0.0, train = false, bidirectional = false, batch_first = false} : tensor<5x3x4xf32>, tensor<1x3x8xf32>, tensor<8x4xf32> -> tensor<5x3x8xf32>, tensor<1x3x8xf32>
  func.return
}

// -----

// CHECK: the states are those of 3 sequences of one step or more, got [1, 2, 8]
func.func @batch(%x: tensor<5x3x4xf32>, %h: tensor<1x2x8xf32>, %w: tensor<8x4xf32>) {
  %y, %n = torch.aten.rnn_tanh.input %x, %h, %w {has_biases = false, num_layers = 1, dropout = 0.0, train = false, bidirectional = false, batch_first = false} : tensor<5x3x4xf32>, tensor<1x2x8xf32>, tensor<8x4xf32> -> tensor<5x3x8xf32>, tensor<1x2x8xf32>
  func.return
}

// -----

// CHECK: the weights must be of the shapes {{\[}}[8, 4], [8, 8]], not {{\[}}[8, 4]]
func.func @weights(%x: tensor<5x3x4xf32>, %h: tensor<1x3x8xf32>, %w: tensor<8x4xf32>) {
  %y, %n = torch.aten.rnn_tanh.input %x, %h, %w {has_biases = false, num_layers = 1, dropout = 0.0, train = false, bidirectional = false, batch_first = false} : tensor<5x3x4xf32>, tensor<1x3x8xf32>, tensor<8x4xf32> -> tensor<5x3x8xf32>, tensor<1x3x8xf32>
  func.return
}
