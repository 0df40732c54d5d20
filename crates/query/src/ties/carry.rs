//! Carries row positions from the scans up to where they decide, and projects them away above.
//!
//! Between a scan and that place the plan has hidden columns beside the ones it had. A [`Carried`]
//! plan says where the old columns are now, and which columns tell its rows apart: positions, or
//! group keys above an aggregate, or for want of better all columns.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::catalog::default_table_source::provider_as_source;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchemaRef, JoinType};
use datafusion::error::Result;
use datafusion::logical_expr::{
    Aggregate, Distinct, DistinctOn, Expr, Filter, Join, Limit, LogicalPlan, LogicalPlanBuilder, Projection, Sort,
    SortExpr, SubqueryAlias, TableScan, Window,
};

use super::ROW_ORDINAL;
use super::functions::{aggregate_needs_position, append, window_needs_position, with_positions};
use super::rule::{OrderedForms, ordered_table, reads_ordered};
use crate::stack::recurse;

/// Whether a column of this name is one of the hidden ones that carry positions.
pub(super) fn is_hidden(name: &str) -> bool {
    name.strip_prefix(ROW_ORDINAL).is_some_and(|rest| rest.starts_with('_'))
}

/// One run over a plan.
#[derive(Default)]
pub(super) struct Carry {
    names: usize,
}

/// A plan with hidden columns.
struct Carried {
    plan: LogicalPlan,
    /// For each column that the plan had: its index now.
    visible: Vec<usize>,
    /// Indices of the columns that tell rows apart, most significant first.
    keys: Vec<usize>,
}

impl Carried {
    fn key_columns(&self) -> Vec<Expr> {
        self.keys.iter().map(|key| column(&self.plan, *key)).collect()
    }

    fn key_sorts(&self) -> Vec<SortExpr> {
        self.key_columns().into_iter().map(|key| SortExpr::new(key, true, false)).collect()
    }

    /// The plan with the columns it had.
    fn show(self, schema: &DFSchemaRef) -> Result<LogicalPlan> {
        let width = self.plan.schema().fields().len();
        if self.visible.iter().copied().eq(0..width) {
            return Ok(self.plan);
        }
        let columns = self.visible.iter().map(|index| column(&self.plan, *index)).collect();
        let projection = Projection::try_new_with_schema(columns, Arc::new(self.plan), Arc::clone(schema))?;
        Ok(LogicalPlan::Projection(projection))
    }
}

fn column(plan: &LogicalPlan, index: usize) -> Expr {
    Expr::Column(Column::from(plan.schema().qualified_field(index)))
}

impl Carry {
    /// The plan with all its ties broken: same columns, same rows.
    pub(super) fn rewrite(&mut self, plan: LogicalPlan) -> Result<LogicalPlan> {
        recurse(|| {
            let plan = self.rewrite_subqueries(plan)?;
            match plan {
                LogicalPlan::Sort(sort) if reads_ordered(&sort.input) => {
                    let schema = Arc::clone(sort.input.schema());
                    self.sort(sort)?.show(&schema)
                }
                LogicalPlan::Window(window) if positional(&window) && reads_ordered(&window.input) => {
                    let schema = Arc::clone(&window.schema);
                    self.window(window)?.show(&schema)
                }
                LogicalPlan::Aggregate(aggregate) => self.aggregate(aggregate),
                LogicalPlan::Distinct(Distinct::On(distinct)) => self.distinct_on(distinct),
                other => self.rewrite_children(other),
            }
        })
    }

    fn rewrite_children(&mut self, plan: LogicalPlan) -> Result<LogicalPlan> {
        Ok(plan.map_children(|child| Ok(Transformed::yes(self.rewrite(child)?)))?.data)
    }

    fn rewrite_subqueries(&mut self, plan: LogicalPlan) -> Result<LogicalPlan> {
        Ok(plan.map_subqueries(|subquery| Ok(Transformed::yes(self.rewrite(subquery)?)))?.data)
    }

    fn carry_input(&mut self, input: Arc<LogicalPlan>) -> Result<Carried> {
        recurse(|| {
            let plan = self.rewrite_subqueries(Arc::unwrap_or_clone(input))?;
            self.carry(plan)
        })
    }

    /// `plan`'s own expressions have been rewritten already, its inputs have not.
    fn carry(&mut self, plan: LogicalPlan) -> Result<Carried> {
        match plan {
            LogicalPlan::TableScan(scan) => match ordered_table(&scan) {
                Some(forms) => self.scan(scan, forms),
                None => Ok(by_all_columns(LogicalPlan::TableScan(scan))),
            },
            LogicalPlan::SubqueryAlias(alias) => {
                let mut inner = self.carry_input(alias.input)?;
                inner.plan = LogicalPlan::SubqueryAlias(SubqueryAlias::try_new(Arc::new(inner.plan), alias.alias)?);
                Ok(inner)
            }
            LogicalPlan::Filter(filter) => {
                let mut inner = self.carry_input(filter.input)?;
                inner.plan = LogicalPlan::Filter(Filter::try_new(filter.predicate, Arc::new(inner.plan))?);
                Ok(inner)
            }
            LogicalPlan::Limit(limit) => {
                let mut inner = self.carry_input(limit.input)?;
                inner.plan =
                    LogicalPlan::Limit(Limit { skip: limit.skip, fetch: limit.fetch, input: Arc::new(inner.plan) });
                Ok(inner)
            }
            LogicalPlan::Sort(sort) => self.sort(sort),
            LogicalPlan::Projection(projection) => self.projection(projection),
            LogicalPlan::Join(join) => self.join(join),
            LogicalPlan::Window(window) => self.window(window),
            LogicalPlan::Aggregate(aggregate) => {
                let measures = aggregate.aggr_expr.len();
                let plan = self.aggregate(aggregate)?;
                let groups = plan.schema().fields().len().saturating_sub(measures);
                let mut carried = by_all_columns(plan);
                carried.keys.retain(|key| *key < groups);
                Ok(carried)
            }
            LogicalPlan::Distinct(Distinct::On(distinct)) => Ok(by_all_columns(self.distinct_on(distinct)?)),
            other => Ok(by_all_columns(self.rewrite_children(other)?)),
        }
    }

    fn fresh(&mut self) -> String {
        self.names += 1;
        format!("{ROW_ORDINAL}_{}", self.names)
    }

    fn scan(&mut self, scan: TableScan, forms: OrderedForms) -> Result<Carried> {
        let mut shown = scan.projection.unwrap_or_else(|| (0..forms.columns).collect());
        let width = shown.len();
        shown.push(forms.columns);
        let plan = LogicalPlanBuilder::scan_with_filters_fetch(
            scan.table_name.clone(),
            provider_as_source(forms.with_ordinal),
            Some(shown),
            scan.filters,
            scan.fetch,
        )?
        .build()?;
        let mut columns: Vec<Expr> = (0..width).map(|index| column(&plan, index)).collect();
        columns.push(column(&plan, width).alias(self.fresh()));
        let plan = LogicalPlan::Projection(Projection::try_new(columns, Arc::new(plan))?);
        Ok(Carried { plan, visible: (0..width).collect(), keys: vec![width] })
    }

    fn sort(&mut self, sort: Sort) -> Result<Carried> {
        let mut inner = self.carry_input(sort.input)?;
        let mut keys = sort.expr;
        append(&mut keys, &inner.key_sorts());
        inner.plan = LogicalPlan::Sort(Sort { expr: keys, input: Arc::new(inner.plan), fetch: sort.fetch });
        Ok(inner)
    }

    fn projection(&mut self, projection: Projection) -> Result<Carried> {
        let inner = self.carry_input(projection.input)?;
        let mut exprs = projection.expr;
        let width = exprs.len();
        let mut keys = Vec::with_capacity(inner.keys.len());
        for key in inner.key_columns() {
            let shown = exprs.iter().take(width).position(|expr| expr.clone().unalias_nested().data == key);
            keys.push(shown.unwrap_or(exprs.len()));
            if shown.is_none() {
                let named =
                    matches!(&key, Expr::Column(column) if column.relation.is_none() && is_hidden(&column.name));
                exprs.push(if named { key } else { key.alias(self.fresh()) });
            }
        }
        let plan = LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(inner.plan))?);
        Ok(Carried { plan, visible: (0..width).collect(), keys })
    }

    fn join(&mut self, join: Join) -> Result<Carried> {
        let (left, right) = match join.join_type {
            JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full => {
                (self.carry_input(join.left)?, self.carry_input(join.right)?)
            }
            JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => {
                (self.carry_input(join.left)?, by_all_columns(self.rewrite(Arc::unwrap_or_clone(join.right))?))
            }
            JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => {
                (by_all_columns(self.rewrite(Arc::unwrap_or_clone(join.left))?), self.carry_input(join.right)?)
            }
        };
        let (left_width, right_width) = (left.plan.schema().fields().len(), right.plan.schema().fields().len());
        let shifted = |indices: &[usize]| indices.iter().map(|index| index + left_width).collect::<Vec<_>>();
        let (visible, keys) = match join.join_type {
            JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full => {
                ([left.visible, shifted(&right.visible)].concat(), [left.keys, shifted(&right.keys)].concat())
            }
            JoinType::LeftSemi | JoinType::LeftAnti => (left.visible, left.keys),
            JoinType::RightSemi | JoinType::RightAnti => (right.visible, right.keys),
            JoinType::LeftMark => ([left.visible, vec![left_width]].concat(), left.keys),
            JoinType::RightMark => ([right.visible, vec![right_width]].concat(), right.keys),
        };
        let plan = LogicalPlan::Join(Join::try_new(
            Arc::new(left.plan),
            Arc::new(right.plan),
            join.on,
            join.filter,
            join.join_type,
            join.join_constraint,
            join.null_equality,
            join.null_aware,
        )?);
        Ok(Carried { plan, visible, keys })
    }

    /// All expressions of one window node share their sort keys, so those that get longer ones move
    /// to a node of their own.
    fn window(&mut self, window: Window) -> Result<Carried> {
        let inner = self.carry_input(window.input)?;
        let sorts = inner.key_sorts();
        let width = inner.plan.schema().fields().len();
        let positional: Vec<bool> = window.window_expr.iter().map(window_needs_position).collect();
        let moved = positional.iter().filter(|positional| **positional).count();
        let (mut longer, mut same) = (Vec::new(), Vec::new());
        let mut visible = inner.visible.clone();
        for (expr, positional) in window.window_expr.into_iter().zip(positional) {
            if positional {
                visible.push(width + longer.len());
                longer.push(with_positions(expr, &sorts));
            } else {
                visible.push(width + moved + same.len());
                same.push(expr);
            }
        }
        let mut plan = inner.plan;
        for exprs in [longer, same] {
            if !exprs.is_empty() {
                plan = LogicalPlan::Window(Window::try_new(exprs, Arc::new(plan))?);
            }
        }
        Ok(Carried { plan, visible, keys: inner.keys })
    }

    fn aggregate(&mut self, aggregate: Aggregate) -> Result<LogicalPlan> {
        let positional = aggregate.aggr_expr.iter().any(aggregate_needs_position);
        if !positional || !reads_ordered(&aggregate.input) {
            return self.rewrite_children(LogicalPlan::Aggregate(aggregate));
        }
        let inner = self.carry_input(aggregate.input)?;
        let sorts = inner.key_sorts();
        let measures = aggregate
            .aggr_expr
            .into_iter()
            .map(|expr| if aggregate_needs_position(&expr) { with_positions(expr, &sorts) } else { expr })
            .collect();
        Ok(LogicalPlan::Aggregate(Aggregate::try_new(Arc::new(inner.plan), aggregate.group_expr, measures)?))
    }

    /// The row that stands for its group is the first by the sort keys, then by position.
    fn distinct_on(&mut self, distinct: DistinctOn) -> Result<LogicalPlan> {
        if !reads_ordered(&distinct.input) {
            return self.rewrite_children(LogicalPlan::Distinct(Distinct::On(distinct)));
        }
        let inner = self.carry_input(distinct.input)?;
        let mut keys = distinct
            .sort_expr
            .unwrap_or_else(|| distinct.on_expr.iter().map(|expr| SortExpr::new(expr.clone(), true, false)).collect());
        append(&mut keys, &inner.key_sorts());
        Ok(LogicalPlan::Distinct(Distinct::On(DistinctOn {
            on_expr: distinct.on_expr,
            select_expr: distinct.select_expr,
            sort_expr: Some(keys),
            input: Arc::new(inner.plan),
            schema: distinct.schema,
        })))
    }
}

fn positional(window: &Window) -> bool {
    window.window_expr.iter().any(window_needs_position)
}

/// Rows that agree in all columns that can be compared need no order.
fn by_all_columns(plan: LogicalPlan) -> Carried {
    let fields = plan.schema().fields();
    let keys = (0..fields.len())
        .filter(|index| fields.get(*index).is_some_and(|field| is_sortable(field.data_type())))
        .collect();
    Carried { visible: (0..fields.len()).collect(), keys, plan }
}

fn is_sortable(data_type: &DataType) -> bool {
    match data_type {
        DataType::Map(..) | DataType::Union(..) | DataType::ListView(_) | DataType::LargeListView(_) => false,
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            is_sortable(item.data_type())
        }
        DataType::Struct(fields) => fields.iter().all(|field| is_sortable(field.data_type())),
        DataType::Dictionary(_, value) => is_sortable(value) && !value.is_nested(),
        DataType::RunEndEncoded(_, value) => is_sortable(value.data_type()) && !value.data_type().is_nested(),
        _ => true,
    }
}
