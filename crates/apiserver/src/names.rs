//! Which names, labels and keys are well-formed, and what a server says of those that are not.

use super::resource::Resource;
use sync_engine_mapping::names::{is_dns_subdomain, is_label_value};

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
    and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start \
    and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
    '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";

const NAME_PART: &str = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with \
    an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
    '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', \
    and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for \
    validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

const CONFIG_KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  \
    or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";

/// What is wrong with an object's name.
pub(super) fn of_object(name: &str, resource: &Resource) -> Option<&'static str> {
    match (&*resource.group, &*resource.plural) {
        // RBAC takes any name that fits into one segment of a path.
        ("rbac.authorization.k8s.io", _) => segment(name),
        ("", "namespaces") if name.contains('.') => Some("must not contain dots"),
        ("", "namespaces") => (name.len() > 63 || !is_dns_subdomain(name)).then_some(LABEL),
        _ => (!is_dns_subdomain(name)).then_some(SUBDOMAIN),
    }
}

fn segment(name: &str) -> Option<&'static str> {
    match name {
        "." => Some("may not be '.'"),
        ".." => Some("may not be '..'"),
        name if name.contains('/') => Some("may not contain '/'"),
        name if name.contains('%') => Some("may not contain '%'"),
        _ => None,
    }
}

/// What is wrong with the key of a label, an annotation or a finalizer: `name` or `prefix/name`.
pub(super) fn of_qualified(key: &str) -> Option<String> {
    let part = |name: &str| (name.is_empty() || !is_label_value(name)).then(|| NAME_PART.to_owned());
    match key.split_once('/') {
        Some((prefix, _)) if !is_dns_subdomain(prefix) => Some(format!("prefix part {SUBDOMAIN}")),
        Some((_, name)) => part(name),
        None => part(key),
    }
}

/// What is wrong with the value of a label.
pub(super) fn of_label_value(value: &str) -> Option<&'static str> {
    (!is_label_value(value)).then_some(LABEL_VALUE)
}

/// What is wrong with a key of a ConfigMap or Secret.
pub(super) fn of_config_key(key: &str) -> Option<&'static str> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    let is_valid = !key.is_empty() && key.len() <= 253 && key.chars().all(is_allowed);
    (!is_valid).then_some(CONFIG_KEY)
}
