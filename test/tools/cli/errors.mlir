// RUN: not deplodock compile %s 2>&1 | filecheck %s --check-prefix=PARSE
// RUN: not deplodock run %s.missing 2>&1 | filecheck %s --check-prefix=MISSING
// RUN: not deplodock compile 2>&1 | filecheck %s --check-prefix=USAGE
// RUN: not deplodock compile %s --ir nope 2>&1 | filecheck %s --check-prefix=LEVEL
// RUN: not deplodock run %s --from %s 2>&1 | filecheck %s --check-prefix=PARSE
// RUN: not deplodock compile %s --precision tf32 2>&1 | filecheck %s --check-prefix=PRECISION

func.func @unknown_op() {
  loop.nope
}

// PARSE:      errors.mlir:9:3: error: operation loop.nope is not registered
// PARSE-NEXT:   loop.nope
// PARSE-NEXT:   ^
// PARSE-NOT:  {{.}}

// MISSING:     deplodock: error: {{.*}}errors.mlir.missing: No such file or directory
// MISSING-NOT: {{.}}

// USAGE: give a program: either -c EXPR or a FILE
// LEVEL: 'nope' is not one of

// PRECISION: deplodock: error: there is no precision 'tf32'; there are highest, high, medium
