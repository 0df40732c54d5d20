//! Bounds on what planning may cost, held on the parsed statement: planning looks at no deadline,
//! so what would keep it busy for minutes is refused before it begins.
//!
//! Two things grow without end from short texts: subqueries in expressions of subqueries (each level
//! is planned again by the levels around it; tables derived in FROM are not), and WITH entries that read earlier ones several times
//! (each reference is planned as a copy).

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Expr, Query, Statement as Sql, Visit, Visitor, visit_relations};
use lakeserve_common::error::{Error, Result};

use crate::error::too_complex;

/// Deepest nesting of subqueries in expressions.
const MAX_SUBQUERY_DEPTH: usize = 12;
/// Most relations after every reference to a WITH entry is replaced by what the entry reads.
const MAX_EXPANDED_RELATIONS: u64 = 2_000;

/// Refuses a statement whose plan would be out of proportion.
pub(super) fn check(statement: &Sql) -> Result<()> {
    let mut walk = Walk { depth: 0, weights: HashMap::new() };
    if let ControlFlow::Break(error) = statement.visit(&mut walk) {
        return Err(*error);
    }
    let total = expanded(statement, &walk.weights, None);
    if total > MAX_EXPANDED_RELATIONS { Err(too_many()) } else { Ok(()) }
}

fn too_many() -> Error {
    too_complex(&format!("more than {MAX_EXPANDED_RELATIONS} relations after WITH entries are expanded"))
}

struct Walk {
    depth: usize,
    /// Relations behind each WITH entry, by its name without case.
    weights: HashMap<String, u64>,
}

impl Visitor for Walk {
    type Break = Box<Error>;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<Box<Error>> {
        for entry in query.with.iter().flat_map(|with| &with.cte_tables) {
            let name = entry.alias.name.value.to_lowercase();
            let weight = expanded(&*entry.query, &self.weights, Some(&name));
            if weight > MAX_EXPANDED_RELATIONS {
                return ControlFlow::Break(Box::new(too_many()));
            }
            let known = self.weights.entry(name).or_default();
            *known = weight.max(*known);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<Box<Error>> {
        self.depth += usize::from(is_subquery(expr));
        if self.depth > MAX_SUBQUERY_DEPTH {
            let what = format!("subqueries nested deeper than {MAX_SUBQUERY_DEPTH} levels");
            return ControlFlow::Break(Box::new(too_complex(&what)));
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &Expr) -> ControlFlow<Box<Error>> {
        self.depth -= usize::from(is_subquery(expr));
        ControlFlow::Continue(())
    }
}

fn is_subquery(expr: &Expr) -> bool {
    matches!(expr, Expr::Subquery(_) | Expr::InSubquery { .. } | Expr::Exists { .. })
}

/// Relations in `node`, a reference to a WITH entry counted as what stands behind it. An entry that
/// reads itself (`own`, WITH RECURSIVE) is planned once.
fn expanded(node: &impl Visit, weights: &HashMap<String, u64>, own: Option<&str>) -> u64 {
    let mut total = 0_u64;
    let _walked: ControlFlow<()> = visit_relations(node, |relation| {
        let name = relation.0.last().map(|part| part.to_string().trim_matches(['"', '`']).to_lowercase());
        let weight = match name.as_deref() {
            Some(name) if own != Some(name) => weights.get(name).copied().unwrap_or(1),
            _ => 1,
        };
        total = total.saturating_add(weight.max(1));
        ControlFlow::Continue(())
    });
    total
}

#[cfg(test)]
mod tests {
    use crate::dialect::{ParseLimits, parse};

    fn refused(sql: &str) -> bool {
        match parse(sql, &ParseLimits::default()) {
            Ok(_) => false,
            Err(error) => {
                assert!(error.message().contains("complex"), "{error}");
                true
            }
        }
    }

    #[test]
    fn subqueries_nest_only_so_deep() {
        let nested = |levels: usize| format!("SELECT {}1{}", "(SELECT ".repeat(levels), ")".repeat(levels));
        assert!(!refused(&nested(8)));
        assert!(refused(&nested(40)));
        let exists = |levels: usize| {
            format!("SELECT 1 WHERE {}true{}", "EXISTS (SELECT 1 WHERE ".repeat(levels), ")".repeat(levels))
        };
        assert!(!refused(&exists(8)));
        assert!(refused(&exists(40)));
        assert!(!refused(&format!("{}SELECT 1{}", "SELECT * FROM (".repeat(40), ") x".repeat(40))));
    }

    #[test]
    fn entries_that_double_are_counted_as_what_they_become() {
        let doubling = |entries: usize| {
            let mut sql = "WITH a0 AS (SELECT 1 x)".to_owned();
            for entry in 1..entries {
                let before = entry - 1;
                sql.push_str(&format!(", a{entry} AS (SELECT a.x FROM a{before} a, A{before} b)"));
            }
            format!("{sql} SELECT count(*) FROM a{}", entries - 1)
        };
        assert!(!refused(&doubling(8)));
        assert!(refused(&doubling(25)));
    }

    #[test]
    fn recursion_and_long_chains_of_entries_are_allowed() {
        assert!(!refused("WITH RECURSIVE t AS (SELECT 1 n UNION ALL SELECT n + 1 FROM t WHERE n < 5) SELECT * FROM t"));
        let mut sql = "WITH a0 AS (SELECT 1 x)".to_owned();
        for entry in 1..100 {
            sql.push_str(&format!(", a{entry} AS (SELECT x FROM a{})", entry - 1));
        }
        assert!(!refused(&format!("{sql} SELECT * FROM a99")));
    }

    #[test]
    fn intervals_and_window_frames_have_bounds() {
        assert!(refused(&format!("SELECT {}'1 day'", "INTERVAL ".repeat(2_000))));
        let frame = "SELECT sum(1) OVER (ORDER BY 1 ROWS BETWEEN 18446744073709551615 PRECEDING AND CURRENT ROW)";
        assert!(parse(frame, &ParseLimits::default()).is_err());
    }
}
