//! Plays a case on a server: fills in variables, sends, keeps what later steps need.

use std::collections::BTreeMap;

use serde_json::Value;
use tokio::time::Instant;

use crate::eventually::poll;
use crate::script::{Case, Step};
use crate::server::{Call, Server};

/// What texts in braces stand for.
pub type Variables = BTreeMap<String, String>;

/// The answers to the steps of a case that are compared, and what its variables have come to be.
pub struct Played {
    pub answers: Vec<Value>,
    pub variables: Variables,
}

/// Plays all steps, beginning with the given variables, and with one for a long text.
pub async fn play(case: &Case, server: &Server, mut variables: Variables) -> Played {
    let mut answers = Vec::new();
    variables.insert("128KiB".into(), "x".repeat(128 << 10));
    for step in &case.steps {
        let answer = take(step, server, &variables).await;
        for (name, pointer) in &step.keep {
            let Some(kept) = answer["body"].pointer(pointer) else { continue };
            let kept = kept.as_str().map(str::to_owned).unwrap_or_else(|| kept.to_string());
            variables.insert(name.clone(), kept);
        }
        if !step.quiet {
            answers.push(presented(step, answer));
        }
    }
    Played { answers, variables }
}

async fn take(step: &Step, server: &Server, variables: &Variables) -> Value {
    let call = call(step, variables);
    let end = Instant::now() + server.patience;
    let mut ticks = poll();
    loop {
        ticks.tick().await;
        let answer = match call.method.as_str() {
            "WATCH" => server.events(&call).await,
            _ => server.answer(&call).await,
        };
        let code = answer["code"].as_u64().unwrap_or_default() as u16;
        let too_early = code == 429 || step.until.as_ref().is_some_and(|until| !until.is_met(code, &answer["body"]));
        if !too_early || Instant::now() > end {
            return answer;
        }
    }
}

/// An answer with its request, and with what nobody can foretell left out.
fn presented(step: &Step, mut answer: Value) -> Value {
    for pointer in &step.mask {
        if let Some(value) = answer["body"].pointer_mut(pointer) {
            *value = "<masked>".into();
        }
    }
    answer["send"] = step.send.as_str().into();
    answer
}

fn call(step: &Step, variables: &Variables) -> Call {
    let line = filled(&step.send, variables);
    let (word, url) = line.split_once(' ').unwrap_or_else(|| panic!("a method and a URL: {line}"));
    let (method, content_type) = match word {
        "APPLY" => ("PATCH", "application/apply-patch+yaml"),
        "MERGE" => ("PATCH", "application/merge-patch+json"),
        "STRATEGIC" => ("PATCH", "application/strategic-merge-patch+json"),
        "JSON" => ("PATCH", "application/json-patch+json"),
        method => (method, step.media.as_deref().unwrap_or("application/json")),
    };
    let url = match method {
        "WATCH" if url.contains('?') => format!("{url}&watch=true"),
        "WATCH" => format!("{url}?watch=true"),
        _ => url.to_owned(),
    };
    let body = match (&step.body, &step.text) {
        (Some(body), _) => filled_tree(body, variables).to_string().into_bytes(),
        (None, Some(text)) => filled(text, variables).into_bytes(),
        (None, None) => Vec::new(),
    };
    let accept = step.accept.as_deref().unwrap_or("application/json").to_owned();
    Call { method: method.to_owned(), url, content_type: content_type.to_owned(), accept, body }
}

/// Replaces `{name}` where there is such a variable; other braces stay.
fn filled(text: &str, variables: &Variables) -> String {
    let mut filled = text.to_owned();
    // A variable's value can name variables that were set before it: `{cm}` has `{ns}` in it.
    for _ in 0..2 {
        for (name, value) in variables {
            filled = filled.replace(&format!("{{{name}}}"), value);
        }
    }
    filled
}

fn filled_tree(value: &Value, variables: &Variables) -> Value {
    match value {
        Value::String(text) => filled(text, variables).into(),
        Value::Array(items) => items.iter().map(|item| filled_tree(item, variables)).collect(),
        Value::Object(map) => {
            map.iter().map(|(key, value)| (filled(key, variables), filled_tree(value, variables))).collect()
        }
        other => other.clone(),
    }
}
