//! Refusals, with the codes, reasons and wording of a Kubernetes API server.

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::fields::FieldSet;
use super::request::{ResourcePath, Verb};
use super::resource::{Resource, qualified};

/// Why a request was not carried out.
#[derive(Clone, Debug, PartialEq)]
pub enum Failure {
    /// A `Status` object, which nearly every refusal is.
    Status(Box<Status>),
    /// The plain text `404 page not found`: the path, group, version or resource is not served at all.
    PageNotFound,
}

/// The `Status` object of a refusal.
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    pub code: u16,
    /// Machine-readable reason, such as `NotFound`.
    pub reason: &'static str,
    pub message: String,
    /// `details`: the resource and name meant, causes.
    pub details: Map<String, Value>,
    /// Seconds of the `Retry-After` header.
    pub retry_after: Option<u32>,
}

/// One cause in the details of a 422.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cause {
    /// `FieldValueRequired`, `FieldValueInvalid`, …
    pub reason: &'static str,
    pub message: String,
    /// Path of the field, `spec.members`.
    pub field: String,
}

impl Cause {
    pub(super) fn new(reason: &'static str, field: impl Into<String>, message: impl Into<String>) -> Cause {
        Cause { reason, message: message.into(), field: field.into() }
    }
}

impl Failure {
    /// A refusal without details.
    pub fn status(code: u16, reason: &'static str, message: impl Into<String>) -> Failure {
        let message = message.into();
        Failure::Status(Box::new(Status { code, reason, message, details: Map::new(), retry_after: None }))
    }

    pub fn bad_request(message: impl Into<String>) -> Failure {
        Failure::status(400, "BadRequest", message)
    }

    /// 410 `Expired`: the version asked for is no longer in the history.
    pub fn expired(message: impl Into<String>) -> Failure {
        Failure::status(410, "Expired", message)
    }

    /// 429 `TooManyRequests` with a `Retry-After` header, in seconds.
    pub fn too_many_requests(retry_after: u32) -> Failure {
        let mut failure = Failure::status(429, "TooManyRequests", "Too many requests, please try again later.")
            .detail("retryAfterSeconds", retry_after);
        if let Failure::Status(status) = &mut failure {
            status.retry_after = Some(retry_after);
        }
        failure
    }

    /// A server error: 500 `InternalError`, 503 `ServiceUnavailable`, 504 `Timeout`.
    pub fn server_error(code: u16) -> Failure {
        let (reason, message) = match code {
            503 => ("ServiceUnavailable", "the server is currently unable to handle the request"),
            504 => ("Timeout", "the server was unable to return a response in the time allotted"),
            _ => ("InternalError", "Internal error occurred: the sandbox was told to fail"),
        };
        Failure::status(code, reason, message)
    }

    /// What was written in a version that the kind no longer has.
    pub(super) fn version_is_gone(direction: &str, api_version: &str) -> Failure {
        let message = format!("request to convert CR {direction} an invalid group/version: {api_version}");
        Failure::status(500, "", message)
    }

    pub(super) fn not_found(resource: &Resource, name: &str) -> Failure {
        let message = format!("{} {name:?} not found", resource.qualified());
        Failure::status(404, "NotFound", message).about(resource, name)
    }

    pub(super) fn already_exists(resource: &Resource, name: &str, is_leaving: bool) -> Failure {
        let prefix = if is_leaving { "object is being deleted: " } else { "" };
        let message = format!("{prefix}{} {name:?} already exists", resource.qualified());
        Failure::status(409, "AlreadyExists", message).about(resource, name)
    }

    pub(super) fn conflict(resource: &Resource, name: &str, why: &str) -> Failure {
        let message = format!("Operation cannot be fulfilled on {} {name:?}: {why}", resource.qualified());
        Failure::status(409, "Conflict", message).about(resource, name)
    }

    /// A precondition of a deletion does not hold; the details name the kind where others name the resource.
    pub(super) fn precondition(resource: &Resource, name: &str, why: &str) -> Failure {
        let message = format!("Operation cannot be fulfilled on {} {name:?}: {why}", resource.qualified_kind());
        Failure::status(409, "Conflict", message).details_of(name, &resource.group, &resource.kind)
    }

    pub(super) fn modified(resource: &Resource, name: &str) -> Failure {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        Failure::conflict(resource, name, why)
    }

    /// 413: a body that is longer than a server reads.
    pub(super) fn too_large(most: usize) -> Failure {
        Failure::status(413, "RequestEntityTooLarge", format!("Request entity too large: limit is {most}"))
    }

    /// What a request gets that proves no user.
    pub(super) fn unauthorized() -> Failure {
        Failure::status(401, "Unauthorized", "Unauthorized")
    }

    /// What a user gets who may not do this to a resource.
    pub(super) fn access_denied(user: &str, verb: Verb, path: &ResourcePath) -> Failure {
        let qualified = qualified(&path.plural, &path.group);
        let subject = match &path.name {
            Some(name) => format!("{qualified} {name:?}"),
            None => qualified,
        };
        let resource = match &path.subresource {
            Some(subresource) => format!("{}/{subresource}", path.plural),
            None => path.plural.clone(),
        };
        let reach = match &path.namespace {
            Some(namespace) => format!("in the namespace {namespace:?}"),
            None => "at the cluster scope".to_owned(),
        };
        let (verb, group) = (verb.of_rbac(), &path.group);
        let message = format!(
            "{subject} is forbidden: User {user:?} cannot {verb} resource {resource:?} in API group {group:?} {reach}: access denied"
        );
        let name = path.name.as_deref().unwrap_or_default();
        Failure::status(403, "Forbidden", message).details_of(name, group, &path.plural)
    }

    pub(super) fn forbidden(resource: &Resource, name: &str, why: &str) -> Failure {
        let message = format!("{} {name:?} is forbidden: {why}", resource.qualified());
        Failure::status(403, "Forbidden", message).about(resource, name)
    }

    pub(super) fn method_not_allowed() -> Failure {
        let message = "the server does not allow this method on the requested resource";
        Failure::status(405, "MethodNotAllowed", message)
    }

    /// What a custom resource answers to a method that its subresource does not know.
    pub(super) fn method_not_supported(resource: &Resource, verb: Verb) -> Failure {
        let message = format!("{verb} is not supported on resources of kind {:?}", resource.qualified());
        Failure::status(405, "MethodNotAllowed", message).about(resource, "")
    }

    /// What is not served, in a group that the server brings itself.
    pub(super) fn no_such_resource() -> Failure {
        Failure::status(404, "NotFound", "the server could not find the requested resource")
    }

    /// The same, said by a server that has asked another, and got a page.
    pub(super) fn no_page_behind() -> Failure {
        let cause = json!({"reason": "UnexpectedServerResponse", "message": "404 page not found"});
        Failure::no_such_resource().detail("causes", vec![cause])
    }

    /// Options of a request that are none; the `kind` is that of all of them, `PatchOptions`.
    pub(super) fn invalid_options(kind: &str, causes: &[Cause]) -> Failure {
        let message = format!("{kind}.meta.k8s.io \"\" is invalid: {}", summary(causes));
        Failure::status(422, "Invalid", message).details_of("", "meta.k8s.io", kind).causes(causes)
    }

    /// What a request gets that accepts no form that there is, in the words of a server that has more of them.
    pub(super) fn not_acceptable(is_custom: bool) -> Failure {
        let offer = match is_custom {
            true => "only the following media types are accepted:",
            false => "406: Not Acceptable\n\nAvailable representations:",
        };
        let message = format!("{offer} application/json, application/yaml, application/vnd.kubernetes.protobuf");
        Failure::status(406, "NotAcceptable", message)
    }

    pub(super) fn unsupported_media_type(accepted: &str) -> Failure {
        let message =
            format!("the body of the request was in an unknown format - accepted media types include: {accepted}");
        Failure::status(415, "UnsupportedMediaType", message)
    }

    pub(super) fn invalid(resource: &Resource, name: &str, causes: &[Cause]) -> Failure {
        let message = format!("{} {name:?} is invalid: {}", resource.qualified_kind(), summary(causes));
        Failure::status(422, "Invalid", message).details_of(name, &resource.group, &resource.kind).causes(causes)
    }

    /// The same, by the name of the resource instead of the kind.
    pub(super) fn invalid_resource(resource: &Resource, name: &str, causes: &[Cause]) -> Failure {
        let message = format!("{} {name:?} is invalid: {}", resource.qualified(), summary(causes));
        Failure::status(422, "Invalid", message).about(resource, name).causes(causes)
    }

    /// An object of another kind than the resource's.
    pub(super) fn wrong_kind(resource: &Resource, kind: &str, name: &str) -> Failure {
        let cause =
            Cause::new("FieldValueInvalid", "kind", format!("Invalid value: {kind:?}: must be {}", resource.kind));
        let message = format!("{kind}.{} {name:?} is invalid: {}: {}", resource.group, cause.field, cause.message);
        Failure::status(422, "Invalid", message).details_of(name, &resource.group, kind).causes(&[cause])
    }

    /// What a patch makes of an object cannot be read as one.
    pub(super) fn patch_makes_nonsense(object: &Value, why: &str) -> Failure {
        let cause = Cause::new("FieldValueInvalid", "patch", format!("Invalid value: {:?}: {why}", object.to_string()));
        let message = format!(" \"\" is invalid: {}: {}", cause.field, cause.message);
        Failure::status(422, "Invalid", message).causes(&[cause])
    }

    /// What a JSON Patch gets that cannot be applied: 422 with a message that says nothing, and empty details.
    pub(super) fn patch_does_not_apply() -> Failure {
        Failure::status(422, "Invalid", "the server rejected our request due to an error in our request")
    }

    /// Server-side apply met fields of other managers: each manager with the fields it would lose.
    pub(super) fn apply_conflicts(conflicts: &[(String, FieldSet)]) -> Failure {
        let mut causes = Vec::new();
        let mut lines = Vec::new();
        for (manager, fields) in conflicts {
            lines.push(format!("conflicts with {manager}:"));
            for path in fields.printed_paths() {
                lines.push(format!("- {path}"));
                causes.push(Cause::new("FieldManagerConflict", path, format!("conflict with {manager}")));
            }
        }
        let message = match causes.as_slice() {
            [only] => format!("Apply failed with 1 conflict: {}: {}", only.message, only.field),
            several => format!("Apply failed with {} conflicts: {}", several.len(), lines.join("\n")),
        };
        Failure::status(409, "Conflict", message).causes(&causes)
    }

    fn causes(self, causes: &[Cause]) -> Failure {
        self.detail("causes", json!(causes))
    }

    pub(super) fn detail(mut self, key: &str, value: impl Into<Value>) -> Failure {
        if let Failure::Status(status) = &mut self {
            status.details.insert(key.into(), value.into());
        }
        self
    }

    fn about(self, resource: &Resource, name: &str) -> Failure {
        self.details_of(name, &resource.group, &resource.plural)
    }

    /// What is empty is left out. The kind is that of the object, or the plural of its resource.
    fn details_of(self, name: &str, group: &str, kind: &str) -> Failure {
        let named = if name.is_empty() { self } else { self.detail("name", name) };
        let grouped = if group.is_empty() { named } else { named.detail("group", group) };
        grouped.detail("kind", kind)
    }

    pub fn code(&self) -> u16 {
        match self {
            Failure::Status(status) => status.code,
            Failure::PageNotFound => 404,
        }
    }
}

impl Status {
    /// The body of the answer.
    pub fn to_json(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message,
        });
        if !self.reason.is_empty() {
            status["reason"] = self.reason.into();
        }
        let is_generic = matches!(self.code, 403 | 404 | 405 | 422);
        if !self.details.is_empty() || is_generic {
            status["details"] = Value::Object(self.details.clone());
        }
        status["code"] = self.code.into();
        status
    }
}

/// All causes in one text, each once.
fn summary(causes: &[Cause]) -> String {
    let mut texts: Vec<String> = Vec::new();
    for text in causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)) {
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    if texts.len() == 1 { texts.remove(0) } else { format!("[{}]", texts.join(", ")) }
}

/// What a successful DELETE answers when nothing is left of the object.
pub(super) fn deleted(resource: &Resource, name: &str, uid: &str) -> Value {
    let mut details = json!({"name": name});
    if !resource.group.is_empty() {
        details["group"] = resource.group.as_ref().into();
    }
    details["kind"] = resource.plural.as_ref().into();
    details["uid"] = uid.into();
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}
