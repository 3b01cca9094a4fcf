//! Keeps floating-point operations whose results nobody uses.
//!
//! Cranelift takes them for pure and drops them, but in regions that run with unmasked exceptions
//! they may set a flag. Each gets a use: its result is stored where nothing is read.

use std::collections::HashMap;

use axp_emu::isa::SINK;
use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::entity::EntitySet;
use cranelift_codegen::ir::{Function, Inst, InstBuilder, Opcode, Value};

use super::emit::STATE;
use crate::abi;

/// Whether an operation can raise an exception.
fn raises(opcode: Opcode) -> bool {
    use Opcode::*;
    matches!(opcode, Fadd | Fsub | Fmul | Fdiv | Sqrt | Fdemote | Fpromote | Fcmp | FcvtToSintSat)
}

/// Whether an instruction is executed for more than its result. Loads are never dropped.
fn has_effect(opcode: Opcode) -> bool {
    opcode.is_terminator()
        || opcode.is_call()
        || opcode.can_load()
        || opcode.can_store()
        || opcode.can_trap()
        || opcode.other_side_effects()
}

/// Adds stores of unused results; `cpu` is the function's first parameter.
pub fn keep_alive(func: &mut Function) {
    let mut used: EntitySet<Value> = EntitySet::new();
    let mut work: Vec<Value> = Vec::new();
    // What the edges pass for each block parameter.
    let mut passed: HashMap<Value, Vec<Value>> = HashMap::new();
    let mut raising: Vec<Inst> = Vec::new();
    for block in func.layout.blocks() {
        for inst in func.layout.block_insts(block) {
            let data = &func.dfg.insts[inst];
            if has_effect(data.opcode()) {
                work.extend(func.dfg.inst_args(inst));
            }
            if raises(data.opcode()) {
                raising.push(inst);
            }
            let tables = (&func.dfg.jump_tables, &func.dfg.exception_tables);
            for call in data.branch_destination(tables.0, tables.1) {
                let params = func.dfg.block_params(call.block(&func.dfg.value_lists));
                for (arg, &param) in call.args(&func.dfg.value_lists).zip(params) {
                    if let Some(value) = arg.as_value() {
                        passed.entry(param).or_default().push(value);
                    }
                }
            }
        }
    }
    while let Some(value) = work.pop() {
        let value = func.dfg.resolve_aliases(value);
        if !used.insert(value) {
            continue;
        }
        match func.dfg.value_def(value).inst() {
            Some(inst) => work.extend(func.dfg.inst_args(inst)),
            None => work.extend(passed.remove(&value).into_iter().flatten()),
        }
    }
    let Some(entry) = func.layout.entry_block() else { return };
    let cpu = func.dfg.block_params(entry)[0];
    for inst in raising {
        let result = func.dfg.first_result(inst);
        if !used.contains(result) {
            let place = func.srcloc(inst);
            let mut cursor = FuncCursor::new(func).after_inst(inst).with_srcloc(place);
            cursor.ins().store(STATE, result, cpu, abi::fp_offset(SINK));
        }
    }
}
