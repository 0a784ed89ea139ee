//! The functions of templates: their names, what they take, and which part computes them.

mod compare;
mod escape;
mod humanize;
mod letters;
mod printf;
mod prometheus;

use std::collections::BTreeMap;
use std::rc::Rc;

use super::run::Run;
use super::value::Value;

/// Functions; the names are theirs in templates.
macro_rules! functions {
    ($($variant:ident $name:literal),* $(,)?) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Function { $($variant),* }

        /// The names of all functions.
        pub(super) const NAMES: &[&str] = &[$($name),*];

        impl Function {
            pub fn named(name: &str) -> Option<Self> {
                match name { $($name => Some(Function::$variant),)* _ => None }
            }

            pub const fn name(self) -> &'static str {
                match self { $(Function::$variant => $name),* }
            }
        }
    };
}

functions! {
    And "and", Or "or", Not "not", Eq "eq", Ne "ne", Lt "lt", Le "le", Gt "gt", Ge "ge",
    Index "index", Slice "slice", Len "len", Print "print", Printf "printf", Println "println",
    Html "html", Js "js", UrlQuery "urlquery",
    Query "query", First "first", Label "label", ValueOf "value", StrValue "strvalue", Args "args",
    ReReplaceAll "reReplaceAll", SafeHtml "safeHtml", Match "match", Title "title", ToUpper "toUpper", ToLower "toLower",
    GraphLink "graphLink", TableLink "tableLink", SortByLabel "sortByLabel", StripPort "stripPort", StripDomain "stripDomain",
    Humanize "humanize", Humanize1024 "humanize1024", HumanizeDuration "humanizeDuration",
    HumanizePercentage "humanizePercentage", HumanizeTimestamp "humanizeTimestamp", ToTime "toTime", ToDuration "toDuration",
    Now "now", PathPrefix "pathPrefix", ExternalUrl "externalURL", ParseDuration "parseDuration",
    UrlQueryEscape "urlQueryEscape",
}

/// The result of a function, or why there is none.
pub(super) type Result = std::result::Result<Value, String>;

/// Calls a function. `and` and `or` are not called: their arguments are evaluated one by one.
pub(super) fn call(function: Function, arguments: &[Value], run: &Run<'_>) -> Result {
    use Function as F;
    let a = Arguments { function, all: arguments };
    match function {
        F::And | F::Or => Err(format!("wrong number of args for {}", function.name())),
        F::Not => a.count(1).map(|()| Value::Bool(!arguments[0].is_true())),
        F::Eq | F::Ne | F::Lt | F::Le | F::Gt | F::Ge => {
            compare::compare(function, arguments).map(Value::Bool)
        }
        F::Index => index(arguments),
        F::Slice => slice(arguments),
        F::Len => {
            a.count(1)?;
            len(&arguments[0])
        }
        F::Print => run.made(printf::print(arguments)),
        F::Println => run.made(printf::println(arguments)),
        F::Printf => run.made(printf::printf(arguments)?),
        F::Html => run.made(escape::html(&joined(arguments))),
        F::Js => run.made(escape::js(&joined(arguments))),
        F::UrlQuery => run.made(escape::query(&joined(arguments))),
        _ => prometheus::call(&a, run),
    }
}

/// The arguments of a function, by their types.
pub(super) struct Arguments<'a> {
    pub function: Function,
    pub all: &'a [Value],
}

impl Arguments<'_> {
    pub fn count(&self, count: usize) -> std::result::Result<(), String> {
        match self.all.len() == count {
            true => Ok(()),
            false => Err(format!(
                "wrong number of args for {}: want {count} got {}",
                self.function.name(),
                self.all.len()
            )),
        }
    }

    fn wrong<T>(&self, at: usize, expected: &str) -> std::result::Result<T, String> {
        Err(format!("wrong type for value; expected {expected}; got {}", self.all[at].kind()))
    }

    pub fn text(&self, at: usize) -> std::result::Result<&str, String> {
        match &self.all[at] {
            Value::Text(text) => Ok(text),
            _ => self.wrong(at, "string"),
        }
    }

    pub fn sample(&self, at: usize) -> std::result::Result<&Rc<super::value::Sample>, String> {
        match &self.all[at] {
            Value::Sample(sample) => Ok(sample),
            _ => self.wrong(at, "*template.sample"),
        }
    }

    pub fn samples(&self, at: usize) -> std::result::Result<&Rc<Vec<Rc<super::value::Sample>>>, String> {
        match &self.all[at] {
            Value::Samples(samples) => Ok(samples),
            _ => self.wrong(at, "template.queryResult"),
        }
    }
}

/// One text as it is; else all arguments as `print` joins them.
fn joined(arguments: &[Value]) -> String {
    match arguments {
        [Value::Text(text)] => text.to_string(),
        _ => printf::print(arguments),
    }
}

fn index(arguments: &[Value]) -> Result {
    let Some((item, indexes)) = arguments.split_first() else {
        return Err(String::from("wrong number of args for index"));
    };
    let mut item = item.clone();
    for index in indexes {
        item = match (&item, index) {
            (Value::Nil, _) => return Err(String::from("index of untyped nil")),
            (Value::Labels(map), Value::Text(name)) => {
                Value::text(map.get(&**name).map_or("", String::as_str))
            }
            (Value::Map(map), Value::Text(name)) => map.get(&**name).cloned().unwrap_or(Value::Nil),
            (Value::Labels(_) | Value::Map(_), other) => {
                return Err(format!("value has type {}; should be string", other.kind()));
            }
            (Value::Samples(all), Value::Int(at)) => {
                match usize::try_from(*at).ok().and_then(|at| all.get(at)) {
                    Some(sample) => Value::Sample(sample.clone()),
                    None => return Err(format!("index out of range: {at}")),
                }
            }
            (Value::Text(text), Value::Int(at)) => {
                match usize::try_from(*at).ok().and_then(|at| text.as_bytes().get(at)) {
                    Some(byte) => Value::Int(i64::from(*byte)),
                    None => return Err(format!("index out of range: {at}")),
                }
            }
            (Value::Samples(_) | Value::Text(_), other) => {
                return Err(format!("cannot index slice/array with type {}", other.kind()));
            }
            (other, _) => return Err(format!("can't index item of type {}", other.kind())),
        };
    }
    Ok(item)
}

fn slice(arguments: &[Value]) -> Result {
    let Some((item, bounds)) = arguments.split_first() else {
        return Err(String::from("wrong number of args for slice"));
    };
    let length = match item {
        Value::Text(text) => text.len(),
        Value::Samples(all) => all.len(),
        other => return Err(format!("can't slice item of type {}", other.kind())),
    };
    let mut whole = [0, length];
    if bounds.len() > 2 {
        return Err(format!("too many slice indexes: {}", bounds.len()));
    }
    for (at, bound) in bounds.iter().enumerate() {
        let Value::Int(number) = bound else {
            return Err(format!("cannot index slice/array with type {}", bound.kind()));
        };
        let number = usize::try_from(*number).ok().filter(|number| *number <= length);
        whole[at] = number.ok_or_else(|| String::from("index out of range"))?;
    }
    if whole[0] > whole[1] {
        return Err(format!("invalid slice index: {} > {}", whole[0], whole[1]));
    }
    match item {
        Value::Text(text) => match text.get(whole[0]..whole[1]) {
            Some(part) => Ok(Value::text(part)),
            None => {
                Ok(Value::text(String::from_utf8_lossy(&text.as_bytes()[whole[0]..whole[1]]).into_owned()))
            }
        },
        Value::Samples(all) => Ok(Value::Samples(Rc::new(all[whole[0]..whole[1]].to_vec()))),
        _ => Ok(Value::Nil),
    }
}

fn len(value: &Value) -> Result {
    let length = match value {
        Value::Text(text) | Value::Html(text) => text.len(),
        Value::Labels(map) => map.len(),
        Value::Map(map) => map.len(),
        Value::Samples(all) => all.len(),
        Value::Nil => return Err(String::from("len of nil pointer")),
        other => return Err(format!("len of type {}", other.kind())),
    };
    Ok(Value::Int(i64::try_from(length).unwrap_or(i64::MAX)))
}

/// `args`: a map with each argument under `arg0`, `arg1` ...
fn args(arguments: &[Value]) -> Value {
    let named = arguments.iter().enumerate().map(|(at, value)| (format!("arg{at}"), value.clone()));
    Value::Map(Rc::new(named.collect::<BTreeMap<_, _>>()))
}
