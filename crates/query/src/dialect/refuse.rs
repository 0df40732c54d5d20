//! Clauses that the planner would drop without a word are refused by name.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::LazyLock;

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArgumentClause, FunctionArguments, GroupByExpr, Join, JoinOperator, LimitClause,
    NamedWindowExpr, OrderByKind, Query, Select, SelectItem, SetExpr, SetQuantifier, TableAlias, TableFactor,
    TableSampleModifier, Visitor, WindowFrameBound, WindowSpec, WindowType,
};
use lakeserve_common::error::{Error, ErrorKind};

/// Walks a statement and stops at the first clause that is not supported.
pub(super) struct Refuse;

type Flow = ControlFlow<Box<Error>>;

fn no(what: &str) -> Flow {
    ControlFlow::Break(Box::new(Error::new(ErrorKind::Unsupported, format!("{what} is not supported"))))
}

fn no_hint(what: &str, hint: &str) -> Flow {
    ControlFlow::Break(Box::new(Error::new(ErrorKind::Unsupported, format!("{what} is not supported")).with_hint(hint)))
}

/// The first of the pairs whose condition holds is refused.
fn first_of(checks: &[(bool, &str)]) -> Flow {
    match checks.iter().find(|(present, _)| *present) {
        Some((_, what)) => no(what),
        None => ControlFlow::Continue(()),
    }
}

impl Visitor for Refuse {
    type Break = Box<Error>;

    fn pre_visit_query(&mut self, query: &Query) -> Flow {
        if let Some(lock) = query.locks.first() {
            return no_hint(&lock.to_string(), "tables are read-only snapshots, so there is nothing to lock");
        }
        let order_by_all = matches!(&query.order_by, Some(order) if matches!(order.kind, OrderByKind::All(_)));
        first_of(&[
            (query.for_clause.is_some(), "FOR XML or FOR JSON"),
            (query.settings.is_some(), "SETTINGS"),
            (query.format_clause.is_some(), "FORMAT"),
            (order_by_all && !matches!(query.body.as_ref(), SetExpr::Select(_)), "ORDER BY ALL over a set operation"),
            (
                query.with.as_ref().is_some_and(|with| with.cte_tables.iter().any(|cte| cte.from.is_some())),
                "FROM in a WITH entry",
            ),
        ])?;
        if let Some(fetch) = &query.fetch {
            first_of(&[(fetch.with_ties, "FETCH … WITH TIES"), (fetch.percent, "FETCH … PERCENT")])?;
        }
        if let Some(LimitClause::LimitOffset { limit_by, .. }) = &query.limit_clause {
            first_of(&[(!limit_by.is_empty(), "LIMIT … BY")])?;
        }
        for cte in query.with.iter().flat_map(|with| &with.cte_tables) {
            alias(Some(&cte.alias))?;
        }
        set_expr(&query.body)
    }

    fn pre_visit_select(&mut self, select: &Select) -> Flow {
        let modifiers = match &select.group_by {
            GroupByExpr::All(modifiers) | GroupByExpr::Expressions(_, modifiers) => modifiers,
        };
        if let Some(modifier) = modifiers.first() {
            return no_hint(
                &format!("GROUP BY … {modifier}"),
                "write GROUP BY ROLLUP (…), CUBE (…) or GROUPING SETS (…)",
            );
        }
        if select.prewhere.is_some() {
            return no_hint("PREWHERE", "write WHERE: filters are pushed into the scan");
        }
        if select.into.is_some() {
            return no_hint("INTO in this place", "write CREATE TABLE … AS SELECT …");
        }
        if select.top.is_some() {
            return no_hint("TOP", "write LIMIT");
        }
        first_of(&[
            (!select.connect_by.is_empty(), "CONNECT BY"),
            (!select.lateral_views.is_empty(), "LATERAL VIEW"),
            (!select.cluster_by.is_empty(), "CLUSTER BY"),
            (!select.sort_by.is_empty(), "SORT BY"),
            (select.value_table_mode.is_some(), "SELECT AS STRUCT or AS VALUE"),
            (select.exclude.is_some(), "EXCLUDE away from the *"),
            (select.select_modifiers.is_some(), "a modifier such as HIGH_PRIORITY or SQL_NO_CACHE after SELECT"),
        ])?;
        for item in &select.projection {
            if let SelectItem::Wildcard(options) | SelectItem::QualifiedWildcard(_, options) = item {
                first_of(&[
                    (options.opt_ilike.is_some(), "* ILIKE"),
                    (options.opt_alias.is_some(), "* with an alias"),
                ])?;
            }
        }
        for window in &select.named_window {
            if let NamedWindowExpr::WindowSpec(spec) = &window.1 {
                window_spec(spec)?;
            }
        }
        for join in select.from.iter().flat_map(|table| &table.joins) {
            join_clause(join)?;
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> Flow {
        match factor {
            TableFactor::Table {
                name: _,
                alias: table_alias,
                args,
                with_hints,
                version,
                with_ordinality,
                partitions,
                json_path,
                sample,
                index_hints,
            } => {
                if let Some(kind) = sample {
                    return refuse_sample(kind);
                }
                first_of(&[
                    (version.is_some(), "this form of time travel"),
                    (!with_hints.is_empty(), "a table hint (WITH (…))"),
                    (*with_ordinality, "WITH ORDINALITY"),
                    (!partitions.is_empty(), "PARTITION (…) after a table"),
                    (json_path.is_some(), "a path into a table"),
                    (!index_hints.is_empty(), "an index hint (USE, FORCE or IGNORE INDEX)"),
                    (args.as_ref().is_some_and(|args| args.settings.is_some()), "SETTINGS"),
                ])?;
                alias(table_alias.as_ref())
            }
            TableFactor::Derived { sample, alias: table_alias, .. } => {
                if let Some(kind) = sample {
                    return refuse_sample(kind);
                }
                alias(table_alias.as_ref())
            }
            TableFactor::Function { with_ordinality, alias: table_alias, .. } => {
                first_of(&[(*with_ordinality, "WITH ORDINALITY")])?;
                alias(table_alias.as_ref())
            }
            TableFactor::UNNEST { with_offset, with_ordinality, alias: table_alias, .. } => {
                first_of(&[(*with_offset, "UNNEST WITH OFFSET"), (*with_ordinality, "WITH ORDINALITY")])?;
                alias(table_alias.as_ref())
            }
            TableFactor::NestedJoin { table_with_joins, alias: table_alias } => {
                for join in &table_with_joins.joins {
                    join_clause(join)?;
                }
                alias(table_alias.as_ref())
            }
            TableFactor::TableFunction { .. } => no("TABLE(…)"),
            TableFactor::JsonTable { .. } => no("JSON_TABLE"),
            TableFactor::OpenJsonTable { .. } => no("OPENJSON"),
            TableFactor::Pivot { .. } => no_hint("PIVOT", "write aggregates with FILTER (WHERE …)"),
            TableFactor::Unpivot { .. } => no_hint("UNPIVOT", "write a UNION ALL"),
            TableFactor::MatchRecognize { .. } => no("MATCH_RECOGNIZE"),
            TableFactor::XmlTable { .. } => no("XMLTABLE"),
            TableFactor::SemanticView { .. } => no("SEMANTIC_VIEW"),
        }
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> Flow {
        match expr {
            Expr::Function(function) => function_call(function),
            Expr::Collate { .. } => no("COLLATE"),
            Expr::MatchAgainst { .. } => no("MATCH … AGAINST"),
            Expr::Prior(_) => no("PRIOR"),
            Expr::OuterJoin(_) => no_hint("(+)", "write LEFT JOIN or RIGHT JOIN"),
            _ => ControlFlow::Continue(()),
        }
    }
}

fn refuse_sample(kind: &datafusion::sql::sqlparser::ast::TableSampleKind) -> Flow {
    use datafusion::sql::sqlparser::ast::TableSampleKind;
    let (TableSampleKind::BeforeTableAlias(sample) | TableSampleKind::AfterTableAlias(sample)) = kind;
    let name = match sample.modifier {
        TableSampleModifier::Sample => "SAMPLE",
        TableSampleModifier::TableSample => "TABLESAMPLE",
    };
    no_hint(name, "answers are exact; take rows by a condition on a key instead")
}

fn alias(alias: Option<&TableAlias>) -> Flow {
    let Some(alias) = alias else { return ControlFlow::Continue(()) };
    first_of(&[
        (alias.at.is_some(), "AT after a table's alias"),
        (alias.columns.iter().any(|column| column.data_type.is_some()), "a type in a table's alias"),
    ])
}

fn join_clause(join: &Join) -> Flow {
    first_of(&[(join.global, "GLOBAL JOIN")])?;
    let name = match &join.join_operator {
        JoinOperator::Semi(_) => "SEMI JOIN (without LEFT or RIGHT)",
        JoinOperator::Anti(_) => "ANTI JOIN (without LEFT or RIGHT)",
        JoinOperator::AsOf { .. } => "ASOF JOIN",
        JoinOperator::StraightJoin(_) => "STRAIGHT_JOIN",
        JoinOperator::ArrayJoin | JoinOperator::LeftArrayJoin | JoinOperator::InnerArrayJoin => "ARRAY JOIN",
        _ => return ControlFlow::Continue(()),
    };
    no(name)
}

/// Writing statements may hide in a query's body; an ALL or BY NAME that the planner ignores too.
fn set_expr(body: &SetExpr) -> Flow {
    let mut rest = vec![body];
    while let Some(body) = rest.pop() {
        match body {
            SetExpr::SetOperation { left, right, set_quantifier, op } => {
                let by_name = matches!(
                    set_quantifier,
                    SetQuantifier::ByName | SetQuantifier::AllByName | SetQuantifier::DistinctByName
                );
                if by_name && !matches!(op, datafusion::sql::sqlparser::ast::SetOperator::Union) {
                    return no(&format!("{op} {set_quantifier}"));
                }
                rest.push(left);
                rest.push(right);
            }
            SetExpr::Insert(_) => return no("INSERT inside a query"),
            SetExpr::Update(_) => return no("UPDATE inside a query"),
            SetExpr::Delete(_) => return no("DELETE inside a query"),
            SetExpr::Merge(_) => return no("MERGE inside a query"),
            SetExpr::Select(_) | SetExpr::Query(_) | SetExpr::Values(_) | SetExpr::Table(_) => {}
        }
    }
    ControlFlow::Continue(())
}

fn window_spec(spec: &WindowSpec) -> Flow {
    let bounds = spec.window_frame.iter().flat_map(|frame| [Some(&frame.start_bound), frame.end_bound.as_ref()]);
    let huge = bounds.flatten().any(is_huge_offset);
    first_of(&[
        (spec.window_name.is_some(), "a window that refines a named window"),
        (huge, "a window frame that reaches more than 10^15 rows"),
    ])
}

/// The planner adds offsets to limits without looking for overflow.
fn is_huge_offset(bound: &WindowFrameBound) -> bool {
    match bound {
        WindowFrameBound::Preceding(Some(offset)) | WindowFrameBound::Following(Some(offset)) => {
            let digits = offset.to_string();
            digits.len() > 16 && digits.bytes().all(|digit| digit.is_ascii_digit())
        }
        _ => false,
    }
}

/// Names of the functions that work on single rows, with their aliases.
static SCALAR_FUNCTIONS: LazyLock<HashSet<String>> = LazyLock::new(|| {
    let mut functions = datafusion::functions::all_default_functions();
    functions.extend(datafusion::functions_nested::all_default_nested_functions());
    functions
        .iter()
        .flat_map(|function| std::iter::once(function.name()).chain(function.aliases().iter().map(String::as_str)))
        .map(str::to_lowercase)
        .collect()
});

fn function_call(function: &Function) -> Flow {
    if !matches!(function.parameters, FunctionArguments::None) {
        return no("a second list of arguments");
    }
    if matches!(function.args, FunctionArguments::Subquery(_)) {
        return no_hint("a subquery as the only argument", "put it in one more pair of parentheses");
    }
    if let Some(WindowType::WindowSpec(spec)) = &function.over {
        window_spec(spec)?;
    }
    let name = function.name.to_string().to_lowercase();
    if !SCALAR_FUNCTIONS.contains(&name) {
        return ControlFlow::Continue(());
    }
    let (mut distinct, mut clause) = (false, None);
    if let FunctionArguments::List(list) = &function.args {
        distinct = list.duplicate_treatment.is_some();
        clause = list.clauses.iter().find(|clause| {
            matches!(clause, FunctionArgumentClause::IgnoreOrRespectNulls(_) | FunctionArgumentClause::OrderBy(_))
        });
    }
    first_of(&[
        (function.filter.is_some(), &format!("FILTER on {name}, which is no aggregate,")),
        (function.over.is_some(), &format!("OVER on {name}, which is no window function,")),
        (distinct, &format!("DISTINCT or ALL in {name}, which is no aggregate,")),
        (
            clause.is_some() || function.null_treatment.is_some(),
            &format!("ORDER BY or NULLS in {name}, which is no aggregate,"),
        ),
        (!function.within_group.is_empty(), &format!("WITHIN GROUP on {name}, which is no aggregate,")),
    ])
}
