//! The cost of an evaluation: the evaluator has no limits of its own.

use std::sync::atomic::{AtomicU64, Ordering};

use cel::common::types::{CelBytes, CelList, CelMap, CelOptional, CelString};
use cel::common::value::{CowVal, Val};
use cel::{Context, DeclarationError, ExecutionError, FunctionContext};

use crate::cel::error::EvaluationError;

/// Budget of one evaluation: about a tenth of a second, like the limit of Kubernetes.
pub const BUDGET: u64 = 1_000_000;

/// The units that an evaluation has spent.
#[derive(Debug)]
pub struct Meter {
    spent: AtomicU64,
    limit: u64,
}

impl Meter {
    /// Allows an evaluation its own budget, or the rest of the pass's budget if that is less.
    pub fn new(left: u64) -> Self {
        Self {
            spent: AtomicU64::new(0),
            limit: left.min(BUDGET),
        }
    }

    /// True if the limit is the rest of the pass's budget.
    pub fn is_of_pass(&self) -> bool {
        self.limit < BUDGET
    }

    pub fn spent(&self) -> u64 {
        self.spent.load(Ordering::Relaxed)
    }

    /// Macros and logical operators may ignore the error, so the caller of the evaluation checks
    /// [`Self::exhausted`] as well.
    pub fn charge(&self, units: u64) -> Result<(), ExecutionError> {
        let spent = self.spent().saturating_add(units);
        self.spent.store(spent, Ordering::Relaxed);
        self.check()
    }

    pub fn check(&self) -> Result<(), ExecutionError> {
        if self.exhausted() {
            Err(ExecutionError::function_error(
                "cost",
                EvaluationError::TooExpensive,
            ))
        } else {
            Ok(())
        }
    }

    pub fn exhausted(&self) -> bool {
        self.spent() > self.limit
    }
}

type Native = Box<
    dyn for<'c, 'v> Fn(&mut FunctionContext<'c, 'v>) -> Result<CowVal<'c, 'v>, ExecutionError>
        + Send
        + Sync,
>;

/// Adds a function that may return one of its arguments. Fails if the name is taken, which is
/// impossible for a name with `@`.
pub fn add<F>(
    context: &mut Context<'_, '_>,
    name: &str,
    function: F,
) -> Result<(), DeclarationError>
where
    F: for<'c, 'v> Fn(&mut FunctionContext<'c, 'v>) -> Result<CowVal<'c, 'v>, ExecutionError>
        + Send
        + Sync
        + 'static,
{
    let function: Native = Box::new(function);
    context.add_function(name, function)
}

/// The cost of copying, comparing or walking a value.
pub fn weight(value: &dyn Val) -> u64 {
    const NODE: u64 = 2;
    let bytes = |len: usize| NODE + (len / 16) as u64;
    if let Some(text) = value.downcast_ref::<CelString>() {
        bytes(text.inner().len())
    } else if let Some(data) = value.downcast_ref::<CelBytes>() {
        bytes(data.inner().len())
    } else if let Some(list) = value.downcast_ref::<CelList>() {
        list.inner().iter().map(|item| weight(&**item)).sum::<u64>() + NODE
    } else if let Some(map) = value.downcast_ref::<CelMap>() {
        map.inner()
            .iter()
            .map(|(key, value)| weight(key.inner()) + weight(&**value))
            .sum::<u64>()
            + NODE
    } else if let Some(optional) = value.downcast_ref::<CelOptional>() {
        optional.inner().map_or(0, weight) + NODE
    } else {
        NODE
    }
}

#[cfg(test)]
mod tests {
    use cel::common::types::CelInt;

    use super::*;

    #[test]
    fn an_exhausted_meter_stays_exhausted() {
        let meter = Meter::new(u64::MAX);
        assert!(meter.charge(BUDGET).is_ok());
        assert!(!meter.exhausted());
        assert!(meter.charge(1).is_err());
        assert!(meter.exhausted());

        let meter = Meter::new(u64::MAX);
        assert!(meter.charge(u64::MAX).is_err());
        assert!(meter.charge(u64::MAX).is_err());
        assert!(meter.exhausted(), "no overflow brings the budget back");
    }

    #[test]
    fn weights_grow_with_the_value() {
        let text = |len: usize| Box::new(CelString::from("a".repeat(len))) as Box<dyn Val>;
        let list = |items: Vec<Box<dyn Val>>| Box::new(CelList::from(items)) as Box<dyn Val>;
        for (value, expected) in [
            (Box::new(CelInt::from(1)) as Box<dyn Val>, 2),
            (text(0), 2),
            (text(15), 2),
            (text(1600), 102),
            (Box::new(CelBytes::from(vec![0; 1600])), 102),
            (list(vec![]), 2),
            (list(vec![text(0), text(16)]), 7),
            (list(vec![list(vec![text(0)])]), 6),
            (Box::new(CelOptional::of(text(16))), 5),
            (Box::new(CelOptional::none()), 2),
        ] {
            assert_eq!(weight(&*value), expected, "{value:?}");
        }
    }
}
