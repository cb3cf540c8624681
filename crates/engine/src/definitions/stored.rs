//! The effect of a change on a stored object.

use serde_json::Value;

use super::{Cause, FieldStep, Loss, schema::is_default};

/// True if an object loses data by a change, or is not valid any more afterwards.
///
/// An object with a value in a field whose schema admits fewer values counts as affected, whatever
/// the value is.
pub(super) fn is_affected(loss: &Loss, object: &Value) -> bool {
    any_at(object, &loss.path, &|value| match &loss.cause {
        Cause::VersionRemoved | Cause::Moved(..) => true,
        // A server adds defaults again, so they are no data of a user.
        Cause::Removed(schema) => !value.is_null() && !is_default(schema, value),
        Cause::UnknownRemoved(known) => {
            let fields = value.as_object();
            fields.is_some_and(|it| it.keys().any(|name| !known.contains(name)))
        }
        Cause::Required(name) => {
            let fields = value.as_object();
            fields.is_some_and(|it| it.get(name).is_none_or(Value::is_null))
        }
        Cause::NotNullable => value.is_null(),
        Cause::Default(default) => value == default,
        Cause::Type(..) | Cause::Narrower(_) | Cause::TooDeep => !value.is_null(),
    })
}

/// True if a value at a path fulfils the condition.
fn any_at(value: &Value, path: &[FieldStep], test: &dyn Fn(&Value) -> bool) -> bool {
    let Some((step, rest)) = path.split_first() else {
        return test(value);
    };
    match step {
        FieldStep::Field(name) => value
            .get(name)
            .is_some_and(|value| any_at(value, rest, test)),
        FieldStep::Items => {
            let items = value.as_array().into_iter().flatten();
            items.into_iter().any(|value| any_at(value, rest, test))
        }
        FieldStep::Values => {
            let values = value.as_object().into_iter().flatten();
            values
                .into_iter()
                .any(|(_, value)| any_at(value, rest, test))
        }
    }
}
