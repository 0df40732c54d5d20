//! Bound parameters: JSON values for `$1`, `$2`, … or `$name`, put into a logical plan.
//!
//! A parameter means what the same literal would mean in the SQL text: whole numbers are BIGINT (or what they need),
//! other numbers decimals with the digits that were sent, texts become dates and timestamps where they meet such
//! columns. What was sent and what the statement uses must match exactly: neither a missing nor an unused parameter
//! passes in silence.

mod number;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};

use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{ParamValues, ScalarValue};
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::{Expr, LogicalPlan};
use lakeserve_common::error::{Error, ErrorKind, Result};
use serde_json::value::RawValue;

use crate::error::from_datafusion;

/// The parameters of one request.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Params(Values);

#[derive(Debug, Clone, PartialEq)]
enum Values {
    Positional(Vec<ScalarValue>),
    Named(BTreeMap<String, ScalarValue>),
}

impl Default for Values {
    fn default() -> Self {
        Self::Positional(Vec::new())
    }
}

impl Params {
    /// Parameters `$1`, `$2`, … from values that are typed already.
    #[must_use]
    pub fn positional(values: Vec<ScalarValue>) -> Self {
        Self(Values::Positional(values))
    }

    /// Reads the JSON text of `params`: a list for `$1`, `$2`, …, an object for `$name`, or `null` for none.
    ///
    /// # Errors
    /// `Option` when it is neither, and naming the parameter when a value is a list or an object, or a number that
    /// no type can hold.
    pub fn from_json(json: &str) -> Result<Self> {
        let malformed = |error: serde_json::Error| invalid(format!("params is not valid JSON: {error}"));
        match json.trim_start().as_bytes().first() {
            Some(b'[') => {
                let items: Vec<&RawValue> = serde_json::from_str(json).map_err(malformed)?;
                let values = items.iter().enumerate().map(|(nth, item)| value(&(nth + 1).to_string(), item.get()));
                Ok(Self(Values::Positional(values.collect::<Result<_>>()?)))
            }
            Some(b'{') => {
                let items: BTreeMap<String, &RawValue> = serde_json::from_str(json).map_err(malformed)?;
                let values = items.into_iter().map(|(name, item)| {
                    let value = value(&name, item.get())?;
                    Ok((name, value))
                });
                Ok(Self(Values::Named(values.collect::<Result<_>>()?)))
            }
            _ => {
                let other: serde_json::Value = serde_json::from_str(json).map_err(malformed)?;
                if other.is_null() {
                    return Ok(Self::default());
                }
                Err(invalid("params must be a list for $1, $2, … or an object for $name"))
            }
        }
    }

    /// Whether there are no parameters.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        match &self.0 {
            Values::Positional(values) => values.is_empty(),
            Values::Named(values) => values.is_empty(),
        }
    }

    /// Replaces the placeholders of a plan by the parameters.
    ///
    /// # Errors
    /// `Option` naming the placeholder without a value, the parameter that the statement does not use, or the text
    /// that is no date, time or timestamp where one is needed.
    pub fn bind(&self, plan: LogicalPlan) -> Result<LogicalPlan> {
        let used = placeholders(&plan)?;
        if let Some(unused) = self.names().find(|name| !used.contains_key(name)) {
            return Err(invalid(format!("parameter ${unused} is not used by the statement")));
        }
        if used.is_empty() {
            return Ok(plan);
        }
        let mut bound = HashMap::with_capacity(used.len());
        for (name, expected) in &used {
            let value = self.get(name).ok_or_else(|| {
                invalid(format!("no value was given for the placeholder ${name}"))
                    .with_hint("params is a list for $1, $2, … or an object for $name")
            })?;
            bound.insert(name.clone(), typed(name, value, expected.as_ref())?);
        }
        // Names are looked up without the dollar sign, so positions serve as names too.
        plan.replace_params_with_values(&ParamValues::from(bound)).map_err(from_datafusion)
    }

    fn names(&self) -> Box<dyn Iterator<Item = String> + '_> {
        match &self.0 {
            Values::Positional(values) => Box::new((1..=values.len()).map(|position| position.to_string())),
            Values::Named(values) => Box::new(values.keys().cloned()),
        }
    }

    fn get(&self, name: &str) -> Option<&ScalarValue> {
        match &self.0 {
            Values::Positional(values) => values.get(name.parse::<usize>().ok()?.checked_sub(1)?),
            Values::Named(values) => values.get(name),
        }
    }
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Option, message)
}

/// The value of one JSON item.
fn value(name: &str, json: &str) -> Result<ScalarValue> {
    let json = json.trim();
    match json.as_bytes().first() {
        Some(b'"') => serde_json::from_str(json)
            .map(|text| ScalarValue::Utf8(Some(text)))
            .map_err(|error| invalid(format!("parameter ${name} is not valid JSON: {error}"))),
        Some(b't') => Ok(ScalarValue::Boolean(Some(true))),
        Some(b'f') => Ok(ScalarValue::Boolean(Some(false))),
        Some(b'n') => Ok(ScalarValue::Null),
        Some(b'[') => Err(invalid(format!("parameter ${name} is a list, which is not supported"))
            .with_hint("pass its items as parameters of their own: x IN ($1, $2)")),
        Some(b'{') => Err(invalid(format!("parameter ${name} is an object, which is not supported"))),
        _ => number::scalar(json).map_err(|reason| invalid(format!("parameter ${name}: the number {json} {reason}"))),
    }
}

/// The placeholders of a plan by name (without the dollar sign), each with the type that its neighbours suggest when
/// all of its places agree.
fn placeholders(plan: &LogicalPlan) -> Result<BTreeMap<String, Option<DataType>>> {
    let mut found: BTreeMap<String, Option<DataType>> = BTreeMap::new();
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expression| {
            expression.apply(|expression| {
                if let Expr::Placeholder(Placeholder { id, field }) = expression {
                    let suggested = field.as_ref().map(|field| field.data_type().clone());
                    let name = id.strip_prefix('$').unwrap_or(id).to_owned();
                    found
                        .entry(name)
                        .and_modify(|before| {
                            if *before != suggested {
                                *before = None;
                            }
                        })
                        .or_insert(suggested);
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })
    .map_err(from_datafusion)?;
    Ok(found)
}

/// The value as the type of its place: texts are read as dates, times and timestamps here, so that the error can name
/// the parameter. All else is left to the coercions that literals go through.
fn typed(name: &str, value: &ScalarValue, expected: Option<&DataType>) -> Result<ScalarValue> {
    let (ScalarValue::Utf8(Some(text)), Some(expected)) = (value, expected) else { return Ok(value.clone()) };
    let (wanted, what) = match expected {
        // A time of day must not be cut off: the comparison is then one of timestamps.
        DataType::Date32 | DataType::Date64 if text.contains(':') => {
            (DataType::Timestamp(TimeUnit::Microsecond, None), "timestamp")
        }
        DataType::Date32 | DataType::Date64 => (expected.clone(), "date"),
        DataType::Time32(_) | DataType::Time64(_) => (expected.clone(), "time"),
        DataType::Timestamp(_, _) => (expected.clone(), "timestamp"),
        _ => return Ok(value.clone()),
    };
    value.cast_to(&wanted).map_err(|_| invalid(format!("parameter ${name}: '{text}' is not a {what}")))
}
