//! docs/http.md, from docs/openapi.json, which a test of the HTTP door holds against a real server.

use serde_json::Value;

use super::{code, table};

const TOP: &str = "# The HTTP interface

<!-- Made by `cargo xtask reference` from docs/openapi.json. -->

";

const BOTTOM: &str = "
[openapi.json](openapi.json) has the schemas of the answers, and the events of streams. Every khz serves this file at `/khz/v1/openapi.json`. Values are decimal strings, so that 64-bit counters
stay exact. Times are seconds since 1970, with nanoseconds.
";

/// The page of a description.
pub fn page(description: &str) -> String {
    let api: Value = serde_json::from_str(description).unwrap();
    let mut text = format!("{TOP}{}\n\n", api["info"]["description"].as_str().unwrap());
    text.push_str("## Paths\n\n");
    let operations = operations(&api);
    let rows = operations
        .iter()
        .map(|(method, path, operation)| [code(&format!("{method} {path}")), summary(operation).to_owned()]);
    text.push_str(&table(["path", "what"], rows));
    for (method, path, operation) in &operations {
        text.push_str(&format!("\n## {method} {path}\n\n{}.", summary(operation)));
        if let Some(description) = operation["description"].as_str() {
            text.push_str(&format!(" {description}"));
        }
        let answer = operation["responses"]["200"]["description"].as_str().unwrap_or_default();
        if !answer.is_empty() && answer.trim_end_matches('.') != summary(operation) {
            text.push_str(&format!("\n\nAnswer: {answer}"));
        }
        text.push_str("\n\n");
        if let Some(parameters) = operation["parameters"].as_array().filter(|all| !all.is_empty()) {
            let rows = parameters.iter().map(|parameter| {
                let parameter = resolved(&api, parameter);
                let example = parameter["example"].as_str().unwrap_or_default();
                let meaning = parameter["description"].as_str().unwrap_or_default();
                [code(parameter["name"].as_str().unwrap()), meaning.to_owned(), code(example)]
            });
            text.push_str(&table(["parameter", "meaning", "example"], rows));
            text.push('\n');
        }
        text.push_str(&format!("Status: {}.\n", statuses(operation).join(", ")));
    }
    text.push_str("\n## Status codes\n\n");
    text.push_str(&table(["status", "meaning"], meanings(&api, &operations)));
    text + BOTTOM
}

type Operation<'a> = (String, &'a str, &'a Value);

fn operations(api: &Value) -> Vec<Operation<'_>> {
    let paths = api["paths"].as_object().unwrap();
    let operations = paths.iter().flat_map(|(path, methods)| {
        let methods = methods.as_object().unwrap().iter().filter(|(method, _)| *method != "parameters");
        methods.map(move |(method, operation)| (method.to_uppercase(), path.as_str(), operation))
    });
    operations.collect()
}

fn summary(operation: &Value) -> &str {
    operation["summary"].as_str().unwrap()
}

/// What a reference leads to; anything else is itself.
fn resolved<'a>(api: &'a Value, value: &'a Value) -> &'a Value {
    match value["$ref"].as_str() {
        Some(place) => api.pointer(&place[1..]).unwrap(),
        None => value,
    }
}

fn statuses(operation: &Value) -> Vec<String> {
    operation["responses"].as_object().unwrap().keys().cloned().collect()
}

/// What each status means, once, in their order.
fn meanings(api: &Value, operations: &[Operation<'_>]) -> Vec<[String; 2]> {
    let mut meanings: Vec<[String; 2]> = Vec::new();
    for (_, _, operation) in operations {
        for (status, response) in operation["responses"].as_object().unwrap() {
            let meaning = resolved(api, response)["description"].as_str().unwrap_or_default();
            let row = [status.clone(), meaning.to_owned()];
            if status != "200" && !meanings.contains(&row) {
                meanings.push(row);
            }
        }
    }
    meanings.sort();
    meanings
}
