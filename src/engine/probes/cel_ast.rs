//! Walks over parsed rules.

use cel::common::ast::{EntryExpr, Expr, IdedExpr};

/// How many nodes evaluating the expression once may visit.
pub fn count(node: &IdedExpr) -> i64 {
    1 + children(node).into_iter().map(count).sum::<i64>()
}

/// How deep the evaluator's recursion gets, and so how much stack it needs.
pub fn depth(node: &IdedExpr) -> usize {
    1 + children(node).into_iter().map(depth).max().unwrap_or(0)
}

/// Visits all nodes, parents first, until one fails.
///
/// # Errors
/// What the first visit to fail says.
pub fn visit<E>(
    node: &IdedExpr,
    visitor: &mut impl FnMut(&IdedExpr) -> Result<(), E>,
) -> Result<(), E> {
    visitor(node)?;
    children(node)
        .into_iter()
        .try_for_each(|child| visit(child, visitor))
}

/// The operands of a node, in the order they are evaluated in.
pub fn children(node: &IdedExpr) -> Vec<&IdedExpr> {
    match &node.expr {
        Expr::Unspecified | Expr::Literal(_) | Expr::Ident(_) => Vec::new(),
        Expr::Select(select) => vec![&*select.operand],
        Expr::Call(call) => {
            let target = call.target.iter().map(AsRef::as_ref);
            target.chain(&call.args).collect()
        }
        Expr::List(list) => list.elements.iter().collect(),
        Expr::Map(map) => map.entries.iter().flat_map(|e| entry(&e.expr)).collect(),
        Expr::Struct(message) => message
            .entries
            .iter()
            .flat_map(|e| entry(&e.expr))
            .collect(),
        Expr::Comprehension(loops) => vec![
            &loops.iter_range,
            &loops.accu_init,
            &loops.loop_cond,
            &loops.loop_step,
            &loops.result,
        ],
    }
}

fn entry(entry: &EntryExpr) -> Vec<&IdedExpr> {
    match entry {
        EntryExpr::MapEntry(entry) => vec![&entry.key, &entry.value],
        EntryExpr::StructField(field) => vec![&field.value],
    }
}
