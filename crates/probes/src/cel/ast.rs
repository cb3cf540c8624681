//! Walks over parsed rules.

use cel::common::ast::{EntryExpr, Expr, IdedExpr};

/// Number of nodes that one evaluation of the expression may visit.
pub fn count(node: &IdedExpr) -> i64 {
    1 + children(node).into_iter().map(count).sum::<i64>()
}

/// Depth of the evaluator's recursion, which determines the stack that it needs.
pub fn depth(node: &IdedExpr) -> usize {
    1 + children(node).into_iter().map(depth).max().unwrap_or(0)
}

/// Visits all nodes, parents first, until one fails.
pub fn visit<E>(
    node: &IdedExpr,
    visitor: &mut impl FnMut(&IdedExpr) -> Result<(), E>,
) -> Result<(), E> {
    visitor(node)?;
    let mut children = children(node).into_iter();
    children.try_for_each(|child| visit(child, visitor))
}

/// The operands of a node, in the order of evaluation.
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
        Expr::Struct(message) => {
            let entries = message.entries.iter();
            entries.flat_map(|e| entry(&e.expr)).collect()
        }
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

#[cfg(test)]
mod tests {
    use cel::Env;

    use super::*;

    fn parse(rule: &str) -> IdedExpr {
        Env::stdlib().parser().parse(rule).unwrap()
    }

    #[test]
    fn depth_is_that_of_the_deepest_operand() {
        for (rule, expected) in [
            ("1", 1),
            ("self", 1),
            ("self.a", 2),
            ("self.a.b.c", 4),
            ("1 + 1", 2),
            ("1 + 1 + 1 + 1", 4),
            ("f(1, g(2))", 3),
            ("self.f(1)", 2),
            ("[1, [2]]", 3),
            ("{'a': [1]}", 3),
            ("T{a: [1]}", 3),
            // the chain of a logical operator is a balanced tree
            ("true && true && true && true", 3),
            // condition, !@not_strictly_false, negation, variable
            ("[1].exists(x, true)", 4),
        ] {
            assert_eq!(depth(&parse(rule)), expected, "{rule}");
        }
    }

    #[test]
    fn count_is_that_of_all_nodes() {
        for (rule, expected) in [
            ("1", 1),
            ("self.a.b", 3),
            ("1 + 2 * 3", 5),
            ("f(1, g(2))", 4),
            ("self.f(1)", 3),
            ("{'a': 1, 'b': 2}", 5),
            ("T{a: 1}", 2),
        ] {
            assert_eq!(count(&parse(rule)), expected, "{rule}");
        }
    }

    #[test]
    fn visits_reach_every_node_until_one_fails() {
        let rule = parse("self.a.f({'k': [v]}, T{x: w}) && l.all(i, i > n)");
        let mut names = Vec::new();
        let all: Result<(), ()> = visit(&rule, &mut |node| {
            if let Expr::Ident(name) = &node.expr
                && !name.starts_with('@')
            {
                names.push(name.clone());
            }
            Ok(())
        });
        assert_eq!(all, Ok(()));
        assert_eq!(names, ["self", "v", "w", "l", "i", "n"]);

        let mut visited = 0;
        let failed = visit(&rule, &mut |node| {
            visited += 1;
            if matches!(node.expr, Expr::Map(_)) {
                Err("a map")
            } else {
                Ok(())
            }
        });
        assert_eq!(failed, Err("a map"));
        assert!(visited < count(&rule));
    }
}
