//! Names, ids, resources and paths: what form each must have, and what was probably meant.

use crate::diagnostic::Finding;
use crate::expression::is_identifier;
use crate::names::{is_dns_label, is_dns_subdomain};
use crate::yaml::{Node, Spanned};
use crate::{Kind, Resource};

/// The finalizer is `sync-engine.dev/<engine>.<mapping>`, and Kubernetes allows 63 characters after the slash: 40 for the
/// mapping leave 22 for the engine, of which `--engine-id` takes 20.
pub const MAX_MAPPING_NAME: usize = 40;

const DNS_LABEL: &str = "lower case letters, digits and `-`, at most 63 characters";

pub(super) fn check_mapping_name(name: &Spanned<String>, findings: &mut Vec<Finding>) {
    if is_dns_label(name) && name.len() <= MAX_MAPPING_NAME {
        return;
    }
    let message = format!(
        "a mapping's name is made of lower case letters, digits and `-`, at most {MAX_MAPPING_NAME} characters"
    );
    findings.push(with_fix(Finding::new("SE0110", name.span(), message), &dns_label_of(name, MAX_MAPPING_NAME)));
}

pub(super) fn dns_label(name: &Spanned<String>, what: &str, findings: &mut Vec<Finding>) -> String {
    if !is_dns_label(name) {
        let finding = Finding::new("SE0110", name.span(), format!("{what} is made of {DNS_LABEL}"));
        findings.push(with_fix(finding, &dns_label_of(name, 63)));
    }
    name.value.clone()
}

pub(super) fn dns_subdomain(name: &Spanned<String>, what: &str, findings: &mut Vec<Finding>) -> String {
    if !is_dns_subdomain(name) {
        let message = format!("{what} is made of lower case letters, digits, `-` and `.`, at most 253 characters");
        findings.push(Finding::new("SE0110", name.span(), message));
    }
    name.value.clone()
}

/// Ids and variables stand in expressions: `objects.<id>`.
pub(super) fn check_identifier(name: &Spanned<String>, what: &str, findings: &mut Vec<Finding>) {
    if !is_identifier(name) {
        let message =
            format!("{what} stands in expressions: letters, digits and `_`, a letter first, at most 63 characters");
        findings.push(with_fix(Finding::new("SE0110", name.span(), message), &identifier_of(name)));
    }
}

pub(super) fn connection(name: &Spanned<String>, findings: &mut Vec<Finding>) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || !name.chars().all(fits) {
        let finding =
            Finding::new("SE0110", name.span(), "a connection's name is made of letters, digits, `-`, `_` and `.`");
        findings.push(finding.help("connections are named on the command line: `--connection NAME=PATH`"));
    }
    name.value.clone()
}

/// A kcp workspace path, which becomes part of a URL: `root:orgs:acme`.
pub(super) fn workspace_path(path: &Spanned<String>, findings: &mut Vec<Finding>) -> String {
    if !path.split(':').all(is_dns_label) {
        let finding = Finding::new("SE0110", path.span(), "a workspace path is a list of names with `:` between them");
        findings.push(finding.help("for example `root:orgs:acme`"));
    }
    path.value.clone()
}

/// `plural.version.group`; the core group is left out.
pub(super) fn resource(text: &Spanned<String>, findings: &mut Vec<Finding>) -> Option<Resource> {
    let parsed = parse_resource(text);
    if parsed.is_none() {
        let finding = Finding::new("SE0112", text.span(), format!("`{}` is not `plural.version.group`", text.value));
        findings.push(finding.help(resource_fix(text)));
    }
    parsed
}

pub fn parse_resource(text: &str) -> Option<Resource> {
    let (plural, rest) = text.split_once('.')?;
    let (version, group) = rest.split_once('.').unwrap_or((rest, ""));
    let group_fits = group.is_empty() && !rest.contains('.') || is_dns_subdomain(group);
    (is_dns_label(plural) && is_version(version) && group_fits).then(|| Resource::new(group, version, plural))
}

fn resource_fix(text: &str) -> String {
    let lower = text.to_lowercase();
    let parts: Vec<&str> = lower.split('/').collect();
    let candidate = match parts.as_slice() {
        // group/version/plural, and version/plural of the core group
        [group, version, plural] if is_version(version) => format!("{plural}.{version}.{group}"),
        [version, plural] if is_version(version) => format!("{plural}.{version}"),
        // plural.group/version
        [resource, version] if is_version(version) => match resource.split_once('.') {
            Some((plural, group)) => format!("{plural}.{version}.{group}"),
            None => format!("{resource}.{version}"),
        },
        _ => lower.clone(),
    };
    if parse_resource(&candidate).is_some() {
        return format!("write `{candidate}`");
    }
    match lower.split_once('.') {
        Some((plural, group)) if is_dns_label(plural) && is_dns_subdomain(group) => {
            format!("the version is missing: `{plural}.v1.{group}`, for example")
        }
        _ => "for example `deployments.v1.apps`, or `secrets.v1` of the core group".into(),
    }
}

/// `v1`, `v2beta1`
pub(crate) fn is_version(text: &str) -> bool {
    let Some(rest) = text.strip_prefix('v') else { return false };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match rest.split_once("alpha").or_else(|| rest.split_once("beta")) {
        Some((major, minor)) => digits(major) && digits(minor),
        None => digits(rest),
    }
}

/// `apiVersion` and `kind` of a template, which must be literals.
pub(super) fn kind(api_version: &Node, kind: &Node, findings: &mut Vec<Finding>) -> Option<Kind> {
    let version = literal(api_version, "apiVersion", findings);
    let kind_name = literal(kind, "kind", findings);
    let (version, kind_name) = (version?, kind_name?);
    let (group, short) = version.split_once('/').unwrap_or(("", version));
    if !is_version(short) || !(group.is_empty() && !version.contains('/') || is_dns_subdomain(group)) {
        let message = format!("`{version}` is no apiVersion");
        findings.push(
            Finding::new("SE0113", api_version.headline(), message)
                .help("for example `apps/v1`, or `v1` of the core group"),
        );
        return None;
    }
    // Some operators have kinds without a capital; Kubernetes itself has none.
    let is_operators = group.contains('.') && !group.ends_with(".k8s.io");
    let starts_well = kind_name.starts_with(|c: char| c.is_ascii_uppercase() || is_operators && c.is_ascii_lowercase());
    if !starts_well || !kind_name.chars().all(|c| c.is_ascii_alphanumeric()) {
        let message = format!("`{kind_name}` is no kind: letters and digits, a capital first");
        findings.push(Finding::new("SE0113", kind.headline(), message).help("for example `Deployment`"));
        return None;
    }
    Some(Kind::new(group, short, kind_name))
}

fn literal<'n>(node: &'n Node, field: &str, findings: &mut Vec<Finding>) -> Option<&'n str> {
    match node.as_str() {
        Some(text) if !is_template(text) => Some(text),
        Some(_) => {
            let finding = Finding::new("SE0113", node.headline(), format!("`{field}` must be a literal"));
            findings.push(finding.help(
                "which kinds a mapping writes is fixed when it is loaded; use one object for each kind, with `when`",
            ));
            None
        }
        None => {
            let message = format!("`{field}` must be a text; this is {}", node.describe());
            findings.push(Finding::new("SE0113", node.headline(), message));
            None
        }
    }
}

/// Whether a text can be a key of a Secret or ConfigMap.
pub(super) fn is_data_key(key: &str) -> bool {
    !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c))
}

/// Whether a label or annotation is one of the engine's owner marks.
pub(super) fn is_mark(key: &str) -> bool {
    let prefix = key.split_once('/').map_or("", |(prefix, _)| prefix);
    prefix == "sync-engine.dev" || prefix.ends_with(".sync-engine.dev") || key == "app.kubernetes.io/managed-by"
}

/// Whether a label or annotation is one of the engine's own or of kcp's: it never leaves its cluster.
pub(super) fn is_internal(key: &str) -> bool {
    is_mark(key) || crate::names::is_kcps(key)
}

/// Whether a text holds anything to evaluate.
pub(super) fn is_template(text: &str) -> bool {
    text.contains("{{") || text.contains("{%")
}

fn with_fix(finding: Finding, fix: &str) -> Finding {
    if fix.is_empty() { finding } else { finding.help(format!("`{fix}`, for example")) }
}

fn dns_label_of(text: &str, length: usize) -> String {
    let lower = text.to_lowercase();
    let fitted: String = lower
        .chars()
        .map(|c| if c.is_ascii_lowercase() || c.is_ascii_digit() { c } else { '-' })
        .take(length)
        .collect();
    fitted.trim_matches('-').to_owned()
}

/// `my-db` → `myDb`
fn identifier_of(text: &str) -> String {
    let mut identifier = String::new();
    for word in text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty()) {
        let (first, rest) = word.split_at(1);
        let first = if identifier.is_empty() { first.to_owned() } else { first.to_uppercase() };
        identifier.push_str(&first);
        identifier.push_str(rest);
    }
    identifier.chars().skip_while(|c| !c.is_ascii_alphabetic()).take(63).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources() {
        let shown = |text: &str| parse_resource(text).map(|resource| resource.to_string());
        for good in
            ["secrets.v1", "deployments.v1.apps", "mongodbcommunity.v1.mongodbcommunity.mongodb.com", "x.v1beta2.a.b"]
        {
            assert_eq!(shown(good).as_deref(), Some(good));
        }
        for (bad, fix) in [
            ("deployments", "for example `deployments.v1.apps`, or `secrets.v1` of the core group"),
            ("apps/v1/deployments", "write `deployments.v1.apps`"),
            ("v1/secrets", "write `secrets.v1`"),
            ("deployments.apps/v1", "write `deployments.v1.apps`"),
            ("Deployments.v1.apps", "write `deployments.v1.apps`"),
            ("deployments.apps", "the version is missing: `deployments.v1.apps`, for example"),
            ("secrets.v1.", "for example `deployments.v1.apps`, or `secrets.v1` of the core group"),
            ("", "for example `deployments.v1.apps`, or `secrets.v1` of the core group"),
        ] {
            assert_eq!((shown(bad), resource_fix(bad).as_str()), (None, fix), "{bad}");
        }
    }

    #[test]
    fn fixes_are_valid() {
        assert_eq!(dns_label_of("My_DB.", 63), "my-db");
        assert_eq!(identifier_of("my-db"), "myDb");
        assert_eq!(identifier_of("9-ü"), "");
    }
}
