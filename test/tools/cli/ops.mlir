// RUN: deplodock ops | filecheck %s

// The table of operations: name, element types, and what each becomes.

// CHECK: _to_copy{{ +}}to all{{ +}}Convert the elements to the type of the result.
// CHECK: convolution{{ +}}numbers{{ +}}
// CHECK: softmax.int{{ +}}floats{{ +}}
