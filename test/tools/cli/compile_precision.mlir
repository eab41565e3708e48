// --precision is that of all products of a program, whatever its text says; below torch level each product says its own.
// RUN: deplodock compile %s --ir tensor | filecheck %s --check-prefix=GIVEN
// RUN: deplodock compile %s --ir tensor --precision high | filecheck %s --check-prefix=HIGH
// RUN: deplodock compile %s --ir tensor --precision highest | filecheck %s --check-prefix=HIGHEST
// RUN: deplodock compile %s --ir tensor | not deplodock compile - --precision high 2>&1 | filecheck %s --check-prefix=REFUSED

// GIVEN-COUNT-1: precision = "medium"
// GIVEN-NOT:     precision
// HIGH-COUNT-2:  precision = "high"
// HIGHEST-NOT:   precision
// REFUSED:       deplodock: error: --precision is for programs at torch level; - is at tensor level, where products say it
func.func @main(%x: tensor<4x8xf32>, %y: tensor<8x8xf32>) -> tensor<4x8xf32> {
  %0 = torch.aten.mm %x, %y attributes {deplodock.precision = "medium"} : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
  %1 = torch.aten.mm %0, %y : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
  func.return %1 : tensor<4x8xf32>
}
