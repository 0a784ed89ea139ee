//! `eq`, `ne`, `lt`, `le`, `gt`, `ge`: as Go compares, which never compares a whole number with a double.

use std::cmp::Ordering;

use super::Function;
use crate::template::value::Value;

const INCOMPATIBLE: &str = "incompatible types for comparison";

pub(super) fn compare(function: Function, arguments: &[Value]) -> Result<bool, String> {
    let Some((first, others)) = arguments.split_first() else {
        return Err(format!("wrong number of args for {}: want at least 1 got 0", function.name()));
    };
    if function == Function::Eq {
        if others.is_empty() {
            return Err(String::from("missing argument for comparison"));
        }
        for other in others {
            if is_equal(first, other)? {
                return Ok(true);
            }
        }
        return Ok(false);
    }
    let [other] = others else {
        return Err(format!("wrong number of args for {}: want 2 got {}", function.name(), arguments.len()));
    };
    if function == Function::Ne {
        return Ok(!is_equal(first, other)?);
    }
    let order = order(first, other)?;
    let is_less = order == Some(Ordering::Less);
    let is_same = is_equal(first, other)?;
    Ok(match function {
        Function::Lt => is_less,
        Function::Le => is_less || is_same,
        Function::Gt => !(is_less || is_same),
        _ => !is_less,
    })
}

fn is_equal(one: &Value, two: &Value) -> Result<bool, String> {
    match (one, two) {
        (Value::Bool(one), Value::Bool(two)) => Ok(one == two),
        (Value::Int(one), Value::Int(two)) => Ok(one == two),
        (Value::Float(one), Value::Float(two)) => Ok(one == two),
        (Value::Text(one) | Value::Html(one), Value::Text(two) | Value::Html(two)) => Ok(one == two),
        (Value::Nil, Value::Nil) => Ok(true),
        (Value::Nil, _) | (_, Value::Nil) => Ok(false),
        (Value::Labels(_) | Value::Map(_) | Value::Samples(_), _)
        | (_, Value::Labels(_) | Value::Map(_) | Value::Samples(_)) => {
            Err(String::from("non-comparable type"))
        }
        _ => Err(INCOMPATIBLE.to_owned()),
    }
}

fn order(one: &Value, two: &Value) -> Result<Option<Ordering>, String> {
    match (one, two) {
        (Value::Int(one), Value::Int(two)) => Ok(Some(one.cmp(two))),
        (Value::Float(one), Value::Float(two)) => Ok(one.partial_cmp(two)),
        (Value::Text(one) | Value::Html(one), Value::Text(two) | Value::Html(two)) => Ok(Some(one.cmp(two))),
        (
            Value::Int(_) | Value::Float(_) | Value::Text(_) | Value::Html(_),
            Value::Int(_) | Value::Float(_) | Value::Text(_) | Value::Html(_),
        ) => Err(INCOMPATIBLE.to_owned()),
        _ => Err(String::from("invalid type for comparison")),
    }
}
