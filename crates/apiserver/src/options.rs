//! The options of a request, in its query: what is not an option is refused before anything else is looked at.

use serde_json::Value;

use super::request::{Query, Request, Verb};
use super::status::{Cause, Failure};

pub(super) use sync_engine_mapping::Propagation;

const INVALID: &str = "FieldValueInvalid";
const FORBIDDEN: &str = "FieldValueForbidden";
const UNSUPPORTED: &str = "FieldValueNotSupported";

/// Refuses options that are none, or that do not go together.
pub(super) fn check(request: &Request, verb: Verb) -> Result<(), Failure> {
    let query = &request.query;
    match verb {
        Verb::Create => check_write(query, "CreateOptions", Vec::new()),
        Verb::Update => check_write(query, "UpdateOptions", Vec::new()),
        Verb::Patch => check_write(query, "PatchOptions", force_without_apply(query)),
        Verb::Apply => check_write(query, "PatchOptions", manager_missing(query)),
        Verb::List | Verb::Watch | Verb::DeleteCollection => check_list(query, verb),
        Verb::Get | Verb::Delete => Ok(()),
    }
}

fn check_write(query: &Query, kind: &str, mut causes: Vec<Cause>) -> Result<(), Failure> {
    causes.extend(query.get("dryRun").filter(|dry_run| !["", "All"].contains(dry_run)).map(|dry_run| {
        let message = format!("Unsupported value: [{dry_run:?}]: supported values: \"All\"");
        Cause::new(UNSUPPORTED, "dryRun", message)
    }));
    let validation = query.get("fieldValidation").filter(|value| !["", "Ignore", "Strict", "Warn"].contains(value));
    causes.extend(validation.map(|value| {
        let message = format!("Unsupported value: {value:?}: supported values: \"\", \"Ignore\", \"Strict\", \"Warn\"");
        Cause::new(UNSUPPORTED, "fieldValidation", message)
    }));
    refuse(kind, causes)
}

fn force_without_apply(query: &Query) -> Vec<Cause> {
    let message = "Forbidden: may not be specified for non-apply patch";
    query.get("force").map(|_| Cause::new(FORBIDDEN, "force", message)).into_iter().collect()
}

fn manager_missing(query: &Query) -> Vec<Cause> {
    let message = "Required value: is required for apply patch";
    let is_missing = query.get("fieldManager").is_none_or(str::is_empty);
    is_missing.then(|| Cause::new("FieldValueRequired", "fieldManager", message)).into_iter().collect()
}

fn check_list(query: &Query, verb: Verb) -> Result<(), Failure> {
    if let Some(limit) = query.get("limit").filter(|limit| limit.parse::<i64>().is_err()) {
        return Err(Failure::bad_request(format!("strconv.ParseInt: parsing {limit:?}: invalid syntax")));
    }
    let version = query.get("resourceVersion").unwrap_or_default();
    let rule = query.get("resourceVersionMatch").unwrap_or_default();
    let asks_for_initial_events = query.get("sendInitialEvents").is_some();
    let forbidden = |why: &str| vec![Cause::new(FORBIDDEN, "resourceVersionMatch", format!("Forbidden: {why}"))];
    let causes = match (verb, rule) {
        (Verb::Watch, "NotOlderThan") if asks_for_initial_events => Vec::new(),
        (Verb::Watch, _) if asks_for_initial_events => {
            forbidden("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")
        }
        (_, "") => Vec::new(),
        (Verb::Watch, _) => {
            forbidden("resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided")
        }
        (_, _) if version.is_empty() => {
            forbidden("resourceVersionMatch is forbidden unless resourceVersion is provided")
        }
        (_, "Exact" | "NotOlderThan") => Vec::new(),
        (_, other) => {
            let why = format!("Unsupported value: {other:?}: supported values: \"Exact\", \"NotOlderThan\", \"\"");
            vec![Cause::new(UNSUPPORTED, "resourceVersionMatch", why)]
        }
    };
    refuse("ListOptions", causes)
}

/// How an object is to be deleted.
#[derive(Debug)]
pub(super) struct Deletion {
    pub preconditions: Value,
    pub propagation: Propagation,
    pub dry_run: bool,
}

impl Deletion {
    /// From the body, else from the query.
    pub fn of(request: &Request) -> Result<Deletion, Failure> {
        let body = if request.body.is_empty() { Value::Null } else { request.json()? };
        let kind = body["kind"].as_str().unwrap_or("DeleteOptions");
        if kind != "DeleteOptions" {
            let version = body["apiVersion"].as_str().unwrap_or_default();
            return Err(Failure::bad_request(format!(
                "no kind {kind:?} is registered for version {version:?} in scheme \"sandbox\""
            )));
        }
        let policy = body["propagationPolicy"].as_str().or(request.query.get("propagationPolicy"));
        let orphans =
            body["orphanDependents"].as_bool().or(request.query.get("orphanDependents").map(|text| text == "true"));
        let dry_run = body["dryRun"].get(0).and_then(Value::as_str).or(request.query.get("dryRun"));
        let propagation = propagation(policy, orphans)?;
        Ok(Deletion { preconditions: body["preconditions"].clone(), propagation, dry_run: dry_run == Some("All") })
    }
}

fn propagation(policy: Option<&str>, orphans: Option<bool>) -> Result<Propagation, Failure> {
    let refused = |reason, why: String| {
        Err(Failure::invalid_options("DeleteOptions", &[Cause::new(reason, "propagationPolicy", why)]))
    };
    if let (Some(policy), Some(_)) = (policy, orphans) {
        let why = format!("Invalid value: {policy:?}: orphanDependents and deletionPropagation cannot be both set");
        return refused(INVALID, why);
    }
    match policy {
        Some("Foreground") => Ok(Propagation::Foreground),
        Some("Orphan") => Ok(Propagation::Orphan),
        None if orphans == Some(true) => Ok(Propagation::Orphan),
        None | Some("" | "Background") => Ok(Propagation::Background),
        Some(other) => {
            let supported = "supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\"";
            refused(UNSUPPORTED, format!("Unsupported value: {other:?}: {supported}"))
        }
    }
}

fn refuse(kind: &str, causes: Vec<Cause>) -> Result<(), Failure> {
    if causes.is_empty() { Ok(()) } else { Err(Failure::invalid_options(kind, &causes)) }
}
