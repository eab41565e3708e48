// RUN: not deplodock compile %s 2>&1 | filecheck %s --check-prefix=PARSE
// RUN: not deplodock run %s.missing 2>&1 | filecheck %s --check-prefix=MISSING
// RUN: not deplodock compile 2>&1 | filecheck %s --check-prefix=USAGE
// RUN: not deplodock compile %s --ir nope 2>&1 | filecheck %s --check-prefix=LEVEL
// RUN: not deplodock run %s --from %s 2>&1 | filecheck %s --check-prefix=PARSE

func.func @unknown_op() {
  loop.nope
}

// PARSE:      errors.mlir:8:3: error: operation loop.nope is not registered
// PARSE-NEXT:   loop.nope
// PARSE-NEXT:   ^
// PARSE-NOT:  {{.}}

// MISSING:     deplodock: error: {{.*}}errors.mlir.missing: No such file or directory
// MISSING-NOT: {{.}}

// USAGE: give a program: either -c EXPR or a FILE
// LEVEL: 'nope' is not one of
