//! `sum`, `avg`, variance and standard deviation as DataFusion sees them: names, argument and result types, and which
//! recipe computes them.
//!
//! Result types are DataFusion's, except that decimals of 32 and 64 bits give decimals of 128 bits, as those of the
//! same precision do: sums of the narrow ones would overflow for no reason.

use arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType, Decimal128Type, Decimal256Type, FieldRef,
    Float64Type, Int64Type, UInt64Type, i256,
};
use datafusion::common::types::{
    NativeType, logical_float64, logical_int8, logical_int16, logical_int32, logical_int64, logical_uint8,
    logical_uint16, logical_uint32, logical_uint64,
};
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDFImpl, Coercion, GroupsAccumulator, ReversedUDAF, Signature, TypeSignature,
    TypeSignatureClass, Volatility,
};
use lakeserve_common::error::{Error, ErrorKind};

use super::accumulate::{Recipe, Totals};
use super::exact::ExactSum;
use super::finish;
use super::interval::IntervalSum;
use super::moments::Moments;
use super::total::Carried;
use crate::error::to_datafusion;
use crate::render::sql_type;

/// Decimals of no more digits than this are totalled in 128 bits: 10^19 × 2^63 rows fit.
const NARROW_DIGITS: u8 = 19;
/// Places that `avg` of decimals adds.
const AVG_PLACES: i8 = 4;

/// Which aggregate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Function {
    /// `sum`
    Sum,
    /// `avg`, `mean`
    Avg,
    /// Variance or, as its root, standard deviation; of a sample or of the whole population.
    Spread { sample: bool, root: bool },
}

impl Function {
    fn names(self) -> &'static [&'static str] {
        match self {
            Self::Sum => &["sum"],
            Self::Avg => &["avg", "mean"],
            Self::Spread { sample: true, root: false } => &["var", "var_sample", "var_samp", "variance"],
            Self::Spread { sample: false, root: false } => &["var_pop", "var_population"],
            Self::Spread { sample: true, root: true } => &["stddev", "stddev_samp"],
            Self::Spread { sample: false, root: true } => &["stddev_pop"],
        }
    }

    fn result_type(self, argument: &DataType) -> Option<DataType> {
        use DataType as T;
        Some(match (self, argument) {
            (Self::Sum, T::Null | T::Int8 | T::Int16 | T::Int32 | T::Int64) => T::Int64,
            (Self::Sum, T::UInt8 | T::UInt16 | T::UInt32 | T::UInt64) => T::UInt64,
            (Self::Sum, T::Interval(_)) => argument.clone(),
            (Self::Sum | Self::Avg, T::Duration(_)) => argument.clone(),
            (Self::Sum, T::Decimal32(p, s) | T::Decimal64(p, s) | T::Decimal128(p, s)) => {
                T::Decimal128(DECIMAL128_MAX_PRECISION.min(p.saturating_add(10)), *s)
            }
            (Self::Sum, T::Decimal256(p, s)) => T::Decimal256(DECIMAL256_MAX_PRECISION.min(p.saturating_add(10)), *s),
            (Self::Avg, T::Decimal32(p, s) | T::Decimal64(p, s) | T::Decimal128(p, s)) => {
                T::Decimal128(DECIMAL128_MAX_PRECISION.min(p.saturating_add(4)), avg_scale(*s, 38))
            }
            (Self::Avg, T::Decimal256(p, s)) => {
                T::Decimal256(DECIMAL256_MAX_PRECISION.min(p.saturating_add(4)), avg_scale(*s, 76))
            }
            (Self::Spread { .. }, T::Duration(_) | T::Interval(_)) | (Self::Avg, T::Interval(_)) => return None,
            (_, T::Null) => T::Float64,
            (_, other) if other.is_numeric() => T::Float64,
            _ => return None,
        })
    }

    /// How it is computed over arguments of a type.
    fn recipe(self, argument: &DataType) -> Result<Box<dyn Recipe>> {
        use DataType as T;
        let result = self.result_type(argument).ok_or_else(|| self.refuse(argument))?;
        Ok(match argument {
            T::Null | T::Int8 | T::Int16 | T::Int32 | T::Int64 => match self {
                Self::Sum => totals::<Int64Type, i128>(T::Int64, finish::sum_i64),
                Self::Avg => totals::<Int64Type, i128>(T::Int64, finish::avg_whole),
                Self::Spread { sample, root } => spread::<Int64Type>(T::Int64, sample, root, 0),
            },
            T::UInt8 | T::UInt16 | T::UInt32 | T::UInt64 => match self {
                Self::Sum => totals::<UInt64Type, i128>(T::UInt64, finish::sum_u64),
                Self::Avg => totals::<UInt64Type, i128>(T::UInt64, finish::avg_whole),
                Self::Spread { sample, root } => spread::<UInt64Type>(T::UInt64, sample, root, 0),
            },
            T::Decimal32(p, s) | T::Decimal64(p, s) | T::Decimal128(p, s) => {
                let read = T::Decimal128(*p, *s);
                match self {
                    Self::Spread { sample, root } => spread::<Decimal128Type>(read, sample, root, *s),
                    _ if *p <= NARROW_DIGITS => self.decimal::<Decimal128Type, i128>(read, *s, result),
                    _ => self.decimal::<Decimal128Type, i256>(read, *s, result),
                }
            }
            T::Decimal256(_, s) => match self {
                // Doubles are what their result is anyway.
                Self::Spread { sample, root } => spread::<Float64Type>(T::Float64, sample, root, 0),
                _ => self.decimal::<Decimal256Type, Carried>(argument.clone(), *s, result),
            },
            T::Duration(_) => match self {
                Self::Sum => totals::<Int64Type, i128>(T::Int64, move |totals, counts| {
                    finish::sum_duration(&result, totals, counts)
                }),
                _ => totals::<Int64Type, i128>(T::Int64, move |totals, counts| {
                    finish::avg_duration(&result, totals, counts)
                }),
            },
            T::Interval(unit) => Box::new(IntervalSum(*unit)),
            _ => match self {
                Self::Sum => totals::<Float64Type, ExactSum>(T::Float64, finish::sum_f64),
                Self::Avg => totals::<Float64Type, ExactSum>(T::Float64, finish::avg_f64),
                Self::Spread { sample, root } => spread::<Float64Type>(T::Float64, sample, root, 0),
            },
        })
    }

    fn decimal<I, W>(self, read: DataType, scale: i8, result: DataType) -> Box<dyn Recipe>
    where
        I: arrow::array::ArrowPrimitiveType,
        I::Native: super::accumulate::DistinctValue,
        W: super::total::Whole + super::total::Adds<I::Native>,
    {
        match self {
            Self::Avg => {
                let more = match result {
                    DataType::Decimal128(_, wider) | DataType::Decimal256(_, wider) => wider.abs_diff(scale),
                    _ => 0,
                };
                totals::<I, W>(read, move |totals, counts| finish::avg_decimal(&result, more.into(), totals, counts))
            }
            _ => totals::<I, W>(read, move |totals, counts| finish::sum_decimal(&result, totals, counts)),
        }
    }

    fn refuse(self, argument: &DataType) -> datafusion::error::DataFusionError {
        let message = format!("{} of {} is not supported", self.names()[0], sql_type(argument));
        to_datafusion(Error::new(ErrorKind::Unsupported, message))
    }
}

fn avg_scale(scale: i8, most: i8) -> i8 {
    most.min(scale.saturating_add(AVG_PLACES))
}

fn totals<I, T>(
    read: DataType,
    finish: impl Fn(&[T], &[u64]) -> Result<arrow::array::ArrayRef> + Send + Sync + 'static,
) -> Box<dyn Recipe>
where
    I: arrow::array::ArrowPrimitiveType,
    I::Native: super::accumulate::DistinctValue,
    T: super::total::Adds<I::Native>,
{
    Box::new(Totals::<I, T>::new(read, finish))
}

fn spread<I>(read: DataType, sample: bool, root: bool, scale: i8) -> Box<dyn Recipe>
where
    I: arrow::array::ArrowPrimitiveType,
    I::Native: super::accumulate::DistinctValue,
    Moments: super::total::Adds<I::Native>,
{
    totals::<I, Moments>(read, move |totals, counts| finish::variance(sample, root, scale, totals, counts))
}

/// An exact aggregate function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct ExactAggregate {
    function: Function,
    signature: Signature,
    aliases: Vec<String>,
}

impl ExactAggregate {
    pub(super) fn new(function: Function) -> Self {
        let exact = |class| TypeSignature::Coercible(vec![Coercion::new_exact(class)]);
        let native = |to, from: Vec<_>, native| {
            let from = from.into_iter().map(TypeSignatureClass::Native).collect();
            TypeSignature::Coercible(vec![Coercion::new_implicit(TypeSignatureClass::Native(to), from, native)])
        };
        let mut signatures = vec![
            exact(TypeSignatureClass::Decimal),
            native(logical_uint64(), vec![logical_uint8(), logical_uint16(), logical_uint32()], NativeType::UInt64),
            native(logical_int64(), vec![logical_int8(), logical_int16(), logical_int32()], NativeType::Int64),
            TypeSignature::Coercible(vec![Coercion::new_implicit(
                TypeSignatureClass::Native(logical_float64()),
                vec![TypeSignatureClass::Float],
                NativeType::Float64,
            )]),
        ];
        if matches!(function, Function::Sum | Function::Avg) {
            signatures.push(exact(TypeSignatureClass::Duration));
        }
        if function == Function::Sum {
            signatures.push(exact(TypeSignatureClass::Interval));
        }
        let aliases = function.names()[1..].iter().map(|alias| (*alias).to_owned()).collect();
        Self { function, signature: Signature::one_of(signatures, Volatility::Immutable), aliases }
    }

    fn recipe(&self, arguments: &[FieldRef]) -> Result<Box<dyn Recipe>> {
        self.function.recipe(arguments.first().map_or(&DataType::Null, |argument| argument.data_type()))
    }
}

impl AggregateUDFImpl for ExactAggregate {
    fn name(&self) -> &str {
        self.function.names()[0]
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        let argument = arguments.first().unwrap_or(&DataType::Null);
        self.function.result_type(argument).ok_or_else(|| self.function.refuse(argument))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        Ok(self.recipe(args.input_fields)?.state_fields(args.name, args.is_distinct))
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if args.is_distinct && matches!(args.return_type(), DataType::Interval(_)) {
            let message = "sum(DISTINCT …) of intervals is not supported";
            return Err(to_datafusion(Error::new(ErrorKind::Unsupported, message)));
        }
        Ok(self.recipe(args.expr_fields)?.accumulator(args.is_distinct))
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        !args.is_distinct && self.recipe(args.expr_fields).is_ok_and(|recipe| recipe.groups().is_some())
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        let groups = self.recipe(args.expr_fields)?.groups();
        groups.ok_or_else(|| datafusion::common::internal_datafusion_err!("{} has no groups", self.name()))
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}
