// RUN: not deplodock compile %s 2>&1 | filecheck %s --check-prefix=PARSE
// RUN: not deplodock run %s.missing 2>&1 | filecheck %s --check-prefix=MISSING
// RUN: not deplodock compile 2>&1 | filecheck %s --check-prefix=USAGE
// RUN: not deplodock compile %s --ir nope 2>&1 | filecheck %s --check-prefix=LEVEL
// RUN: not deplodock compile -c 'torch.randn(64, 4096).sum(-1)' --schedule 'tileify,cooperative-reduce{threads=2048},blockify-launch{threads=2048}' 2>&1 | filecheck %s --check-prefix=LARGE
// RUN: not deplodock run %s --from %s 2>&1 | filecheck %s --check-prefix=PARSE
// RUN: not deplodock compile %s --precision tf32 2>&1 | filecheck %s --check-prefix=PRECISION

func.func @unknown_op() {
  loop.nope
}

// PARSE:      errors.mlir:10:3: error: operation loop.nope is not registered
// PARSE-NEXT:   loop.nope
// PARSE-NEXT:   ^
// PARSE-NOT:  {{.}}

// MISSING:     deplodock: error: {{.*}}errors.mlir.missing: No such file or directory
// MISSING-NOT: {{.}}

// LARGE:      <expression>:1:1: error: kernel.func: @k_sum has 2048 threads in a CTA, sm_90 allows 1024; give a CTA fewer
// LARGE-NEXT: note: in pass verify-resources
// LARGE-NOT:  {{.}}

// USAGE: give a program: either -c EXPR or a FILE
// LEVEL: 'nope' is not one of

// PRECISION: deplodock: error: there is no precision 'tf32'; there are highest, high, medium
