//! TPC-H query 6: its parameters, its text, and the exact answer for every choice of parameters.
//!
//! The references come from one query of another shape (no filter by the drawn parameters, a GROUP BY
//! year, discount and quantity class): its cells are exact sums of decimals, and a reference is the
//! sum of the cells that the parameters select. So an answer under load is checked against a value
//! that the same filter did not produce.

use std::collections::HashMap;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

/// Lineitem's rows at scale 1, where the answer is known from the benchmark.
pub(crate) const ROWS_AT_SCALE_ONE: u64 = 6_001_215;

/// The answer at scale 1 to the default parameters: 123141078.2283.
pub(crate) const REVENUE_AT_SCALE_ONE: Revenue = Some(1_231_410_782_283);

/// A sum in ten-thousandths; `None` is SQL's NULL, the sum of no rows.
pub(crate) type Revenue = Option<i128>;

/// What one query asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Parameters {
    /// 1993 to 1997.
    pub(crate) year: i128,
    /// In hundredths, 2 to 9.
    pub(crate) discount: i128,
    /// 24 or 25.
    pub(crate) quantity: i128,
}

impl Parameters {
    /// The benchmark's validation parameters.
    pub(crate) const DEFAULT: Self = Self { year: 1994, discount: 6, quantity: 24 };

    /// All that can be drawn.
    pub(crate) fn all() -> Vec<Self> {
        let years = (1993..=1997).flat_map(|year| (2..=9).map(move |discount| (year, discount)));
        years.flat_map(|(year, discount)| [24, 25].map(|quantity| Self { year, discount, quantity })).collect()
    }

    /// The query over `table`, a quoted name.
    pub(crate) fn sql(self, table: &str) -> String {
        let Self { year, discount, quantity } = self;
        format!(
            "SELECT sum(l_extendedprice * l_discount) AS revenue FROM {table} \
             WHERE l_shipdate >= DATE '{year}-01-01' AND l_shipdate < DATE '{}-01-01' \
             AND l_discount BETWEEN {} AND {} AND l_quantity < {quantity}",
            year + 1,
            hundredths(discount - 1),
            hundredths(discount + 1),
        )
    }
}

fn hundredths(value: i128) -> String {
    format!("{}.{:02}", value / 100, value % 100)
}

/// `name` as a quoted identifier.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// The query whose cells the references are summed from.
pub(crate) fn cells_sql(table: &str) -> String {
    let (year, class) = ("extract(year FROM l_shipdate)", "CASE WHEN l_quantity < 24 THEN 24 ELSE 25 END");
    format!(
        "SELECT {year} AS shipyear, l_discount, {class} AS below, sum(l_extendedprice * l_discount) AS revenue FROM {table} \
         WHERE l_shipdate >= DATE '1993-01-01' AND l_shipdate < DATE '1998-01-01' \
         AND l_discount BETWEEN 0.01 AND 0.10 AND l_quantity < 25 GROUP BY {year}, l_discount, {class}"
    )
}

/// The exact answers to every choice of parameters, from the rows that [`cells_sql`] yields.
///
/// # Errors
/// When a row is not of the shape asked for.
pub(crate) fn references(cells: &[Vec<Value>]) -> Result<HashMap<Parameters, Revenue>> {
    let mut sums: HashMap<(i128, i128, i128), i128> = HashMap::new();
    for row in cells {
        let [year, discount, below, revenue] = row.as_slice() else {
            bail!("a reference row has {} values, not 4", row.len())
        };
        let number = |value: &Value, scale: usize| {
            scaled(value, scale)?.with_context(|| format!("a reference row holds NULL: {row:?}"))
        };
        let cell = (number(year, 0)?, number(discount, 2)?, number(below, 0)?);
        ensure!(sums.insert(cell, number(revenue, 4)?).is_none(), "the reference query gave the group {cell:?} twice");
    }
    let reference = |asked: Parameters| {
        let discounts = asked.discount - 1..=asked.discount + 1;
        let selected =
            |cell: &(i128, i128, i128)| cell.0 == asked.year && discounts.contains(&cell.1) && cell.2 <= asked.quantity;
        let sums = sums.iter().filter(|(cell, _)| selected(cell)).map(|(_, sum)| *sum);
        sums.fold(None, |total, sum| Some(total.unwrap_or(0) + sum))
    };
    Ok(Parameters::all().into_iter().map(|asked| (asked, reference(asked))).collect())
}

/// The sum that an answer of one row and one column holds.
///
/// # Errors
/// When the answer has another shape.
pub(crate) fn revenue(rows: &[Vec<Value>]) -> Result<Revenue> {
    let [row] = rows else { bail!("{} rows came back, not 1", rows.len()) };
    let [value] = row.as_slice() else { bail!("{} columns came back, not 1", row.len()) };
    scaled(value, 4)
}

/// A JSON number, or a number as text, times ten to the `scale`; digits beyond the scale must be zero.
///
/// # Errors
/// When it is no such number.
pub(crate) fn scaled(value: &Value, scale: usize) -> Result<Option<i128>> {
    let text = match value {
        Value::Null => return Ok(None),
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        other => bail!("{other} is not a number"),
    };
    let plain =
        if text.contains(['e', 'E']) { text.parse::<f64>().map(|float| float.to_string())? } else { text.clone() };
    let (sign, digits) = plain.strip_prefix('-').map_or((1, plain.as_str()), |digits| (-1, digits));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    ensure!(whole.starts_with(|first: char| first.is_ascii_digit()), "{text} is not a number");
    let kept = fraction.get(..scale.min(fraction.len())).unwrap_or_default();
    let rest = fraction.get(kept.len()..).unwrap_or_default();
    ensure!(rest.chars().all(|digit| digit == '0'), "{text} has more than {scale} decimal places");
    let number =
        format!("{whole}{kept:0<scale$}").parse::<i128>().with_context(|| format!("{text} is not a number"))?;
    Ok(Some(sign * number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_are_read_exactly_however_they_are_spelled() {
        for value in
            [json!("123141078.2283"), json!(123141078.2283), json!("123141078.228300"), json!("1.231410782283E8")]
        {
            assert_eq!(scaled(&value, 4).unwrap(), REVENUE_AT_SCALE_ONE, "{value}");
        }
        assert_eq!(scaled(&json!(7), 4).unwrap(), Some(70_000));
        assert_eq!(scaled(&json!("-0.5"), 4).unwrap(), Some(-5_000));
        assert_eq!(scaled(&Value::Null, 4).unwrap(), None);
        for value in [json!("0.00001"), json!("x"), json!(true), json!(""), json!("1.-5")] {
            assert!(scaled(&value, 4).is_err(), "{value}");
        }
    }

    #[test]
    fn the_default_query_is_the_benchmarks() {
        assert_eq!(
            Parameters::DEFAULT.sql(&quoted("lineitem")),
            "SELECT sum(l_extendedprice * l_discount) AS revenue FROM \"lineitem\" \
             WHERE l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1995-01-01' \
             AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24"
        );
        assert!(Parameters { discount: 9, ..Parameters::DEFAULT }.sql("t").contains("BETWEEN 0.08 AND 0.10"));
    }

    #[test]
    fn references_sum_the_cells_that_the_parameters_select() {
        let cells = [
            vec![json!(1994), json!("0.05"), json!(24), json!("1.0000")],
            vec![json!(1994), json!(0.06), json!(24), json!(2.5)],
            vec![json!(1994), json!("0.07"), json!(25), json!("4.0000")],
            vec![json!(1995), json!("0.06"), json!(24), json!("8.0000")],
        ];
        let references = references(&cells).unwrap();
        assert_eq!(references.len(), 80);
        assert_eq!(references[&Parameters::DEFAULT], Some(35_000));
        assert_eq!(references[&Parameters { quantity: 25, ..Parameters::DEFAULT }], Some(75_000));
        assert_eq!(references[&Parameters { discount: 9, ..Parameters::DEFAULT }], None);
    }
}
