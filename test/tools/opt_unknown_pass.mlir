// RUN: not deplodock-opt %s --pass-pipeline=tilefy 2>&1 | filecheck %s --check-prefix=PASS
// RUN: not deplodock-opt %s --print-ir-after=stage-input 2>&1 | filecheck %s --check-prefix=DUMP
// RUN: not deplodock-opt %s -p 'apply-individual-rewrite{nope=1}' 2>&1 | filecheck %s --check-prefix=OPTION
// RUN: not deplodock-opt %s -p 'tileify{nope=1}' 2>&1 | filecheck %s --check-prefix=OWN
// RUN: not deplodock-opt %s -p 'stage-inputs{memory=1,2}' 2>&1 | filecheck %s --check-prefix=TWO
// RUN: not deplodock-opt %s -p 'mlir-opt{executable=3}' 2>&1 | filecheck %s --check-prefix=VALUE
// RUN: not deplodock-opt %s -p 'cse,dce{a=}' 2>&1 | filecheck %s --check-prefix=SYNTAX
// RUN: not deplodock-opt %s -t 'mlir{nope=1}' 2>&1 | filecheck %s --check-prefix=TARGET

// PASS:       deplodock-opt: error: unknown pass 'tilefy'; did you mean tileify?
// DUMP:       deplodock-opt: error: unknown pass 'stage-input'; did you mean stage-inputs
// OPTION:     deplodock-opt: error: pass 'apply-individual-rewrite{nope=1}': {{.*}}; its options are:
// OWN:        deplodock-opt: error: pass 'tileify{nope=1}': there is no option nope; tileify has none
// TWO:        deplodock-opt: error: pass 'stage-inputs{memory=1,2}': the option memory takes one value, got 1, 2
// VALUE:      deplodock-opt: error: pass 'mlir-opt{executable=3}': Incompatible types: given (3,){{.*}}; its options are: executable: str
// SYNTAX:      pass-pipeline:1:11: error: Unknown argument value
// SYNTAX-NEXT: cse,dce{a=}
// SYNTAX-NEXT:           ^
// TARGET:     deplodock-opt: error: target 'mlir{nope=1}': Provided arguments ["nope"] not found
builtin.module {
}
