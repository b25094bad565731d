//! From method, URL and headers to a typed request.

use std::fmt;

use http::Method;
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use http::request::Parts;
use http::uri::PathAndQuery;
use hyper::body::Bytes;
use percent_encoding::percent_decode_str;
use serde_json::Value;

use super::access::User;
use super::protobuf::{self, PROTOBUF, Unreadable};
use super::status::Failure;

/// A request as it arrived: nothing of it is checked yet.
#[derive(Clone, Debug)]
pub struct Request {
    pub method: Method,
    /// Path of the URL, still escaped.
    pub path: String,
    pub query: Query,
    /// Header `Content-Type`, without parameters.
    pub content_type: String,
    /// Header `Accept`; empty for anything.
    pub accept: String,
    /// Header `User-Agent`: names the field manager where the URL does not.
    pub user_agent: String,
    /// JSON; for patches also a list, for server-side apply JSON (which is YAML).
    pub body: Bytes,
    pub user: User,
    /// The shard whose address the request came to.
    pub shard: usize,
}

/// Parameters of a URL, decoded, in order.
#[derive(Clone, Debug, Default)]
pub struct Query(Vec<(String, String)>);

/// What a URL points at.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Route {
    pub place: Place,
    pub endpoint: Endpoint,
}

/// Whose objects a URL is about.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Place {
    /// No cluster named: the only one, or kcp's `root`.
    Here,
    /// `/clusters/<name or path>`.
    Cluster(String),
    /// `/services/apiexport/<cluster>/<export>[/clusters/<name or *>]`.
    Virtual { provider: String, export: String, cluster: Option<String> },
}

/// What is asked for there.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Endpoint {
    Health,
    Version,
    CoreVersions,
    Groups,
    Group(String),
    GroupVersion { group: String, version: String },
    OpenApiIndex,
    OpenApi { group: String, version: String },
    Resource(ResourcePath),
    Unknown,
}

/// The part of a URL behind the group and version.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ResourcePath {
    pub group: String,
    pub version: String,
    pub namespace: Option<String>,
    pub plural: String,
    pub name: Option<String>,
    pub subresource: Option<String>,
}

sync_engine_mapping::words! {
    /// What is done to a resource, in the words of RBAC, with server-side apply told apart from other patches.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Verb {
        Get = "get",
        List = "list",
        Watch = "watch",
        Create = "create",
        Update = "update",
        Patch = "patch",
        Apply = "apply",
        Delete = "delete",
        DeleteCollection = "deletecollection",
    }
}

/// A request in one line, for counters and faults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub verb: Verb,
    /// Plural of the resource, with its subresource: `configmaps`, `mongodbcommunity/status`; a path's beginning where
    /// no resource is meant: `/version`.
    pub resource: String,
    /// Logical cluster as the URL names it; `*` for all, empty where it names none.
    pub cluster: String,
    /// Namespace; empty for cluster-scoped objects and lists of all namespaces.
    pub namespace: String,
    /// Name; empty for collections.
    pub name: String,
    /// Whether the request goes through a virtual workspace.
    pub through_virtual_workspace: bool,
}

/// A request that came over HTTP, and its answer: a line of an audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    pub call: Call,
    /// Path and query as they were sent.
    pub path: String,
    pub user_agent: String,
    /// HTTP status; 0 where the connection was cut instead.
    pub code: u16,
}

pub(super) const APPLY_PATCH: &str = "application/apply-patch+yaml";

impl Request {
    /// A request without body. `path_and_query` is what follows the host in a URL.
    pub fn new(method: Method, path_and_query: &str) -> Request {
        let (path, query) = path_and_query.split_once('?').unwrap_or((path_and_query, ""));
        Request {
            method,
            path: path.to_owned(),
            query: Query::parse(query),
            content_type: "application/json".into(),
            accept: String::new(),
            user_agent: "sandbox".into(),
            user: User::Administrator,
            body: Bytes::new(),
            shard: 0,
        }
    }

    /// A request by its head, without its body.
    pub fn of_head(head: &Parts) -> Request {
        let header = |name| head.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let path_and_query = head.uri.path_and_query().map_or("/", PathAndQuery::as_str);
        Request {
            content_type: header(CONTENT_TYPE).split(';').next().unwrap_or_default().trim().to_owned(),
            accept: header(ACCEPT).to_owned(),
            user_agent: header(USER_AGENT).to_owned(),
            ..Request::new(head.method.clone(), path_and_query)
        }
    }

    /// GET: one object, a list, a watch or discovery.
    pub fn get(path_and_query: &str) -> Request {
        Request::new(Method::GET, path_and_query)
    }

    /// POST of a new object.
    pub fn post(path_and_query: &str, body: &Value) -> Request {
        Request::new(Method::POST, path_and_query).with_body(body)
    }

    /// PUT of a whole object.
    pub fn put(path_and_query: &str, body: &Value) -> Request {
        Request::new(Method::PUT, path_and_query).with_body(body)
    }

    /// PATCH of the given media type, such as `application/merge-patch+json`.
    pub fn patch(path_and_query: &str, content_type: &str, body: &Value) -> Request {
        let mut request = Request::new(Method::PATCH, path_and_query).with_body(body);
        request.content_type = content_type.to_owned();
        request
    }

    /// Server-side apply.
    pub fn apply(path_and_query: &str, body: &Value) -> Request {
        Request::patch(path_and_query, APPLY_PATCH, body)
    }

    /// DELETE, with empty options.
    pub fn delete(path_and_query: &str) -> Request {
        Request::new(Method::DELETE, path_and_query)
    }

    fn with_body(mut self, body: &Value) -> Request {
        self.body = body.to_string().into();
        self
    }

    pub(super) fn route(&self) -> Route {
        let segments = self.path.split('/').filter(|segment| !segment.is_empty());
        let segments: Vec<_> = segments.map(|segment| percent_decode_str(segment).decode_utf8_lossy()).collect();
        let segments: Vec<&str> = segments.iter().map(|segment| &**segment).collect();
        let (place, rest) = match segments.as_slice() {
            ["clusters", cluster, rest @ ..] => (Place::Cluster(cluster.to_string()), rest),
            ["services", "apiexport", provider, export, rest @ ..] => virtual_place(provider, export, rest),
            rest => (Place::Here, rest),
        };
        Route { place, endpoint: endpoint(rest) }
    }

    /// The request in one line, for counters and faults.
    pub fn call(&self) -> Call {
        let route = self.route();
        let through_virtual_workspace = matches!(route.place, Place::Virtual { .. });
        let cluster = match route.place {
            Place::Here => String::new(),
            Place::Cluster(cluster) => cluster,
            Place::Virtual { cluster, .. } => cluster.unwrap_or_default(),
        };
        let Endpoint::Resource(path) = route.endpoint else {
            let resource = format!("/{}", self.path.split('/').find(|part| !part.is_empty()).unwrap_or_default());
            let (namespace, name) = (String::new(), String::new());
            return Call { verb: Verb::Get, resource, cluster, namespace, name, through_virtual_workspace };
        };
        let verb = self.verb(path.name.is_some());
        let resource = match path.subresource {
            Some(subresource) => format!("{}/{subresource}", path.plural),
            None => path.plural,
        };
        let (namespace, name) = (path.namespace.unwrap_or_default(), path.name.unwrap_or_default());
        Call { verb, resource, cluster, namespace, name, through_virtual_workspace }
    }

    pub(super) fn verb(&self, named: bool) -> Verb {
        match self.method {
            Method::POST => Verb::Create,
            Method::PUT => Verb::Update,
            Method::PATCH if self.content_type == APPLY_PATCH => Verb::Apply,
            Method::PATCH => Verb::Patch,
            Method::DELETE if named => Verb::Delete,
            Method::DELETE => Verb::DeleteCollection,
            _ if named => Verb::Get,
            _ if self.query.is_true("watch") => Verb::Watch,
            _ => Verb::List,
        }
    }

    /// The body as JSON, whether it came as that or as Protobuf.
    pub(super) fn json(&self) -> Result<Value, Failure> {
        if self.content_type == PROTOBUF {
            return protobuf::decode(&self.body).map_err(|why| unreadable(&why));
        }
        let is_json =
            self.content_type.is_empty() || self.content_type.contains("json") || self.content_type == APPLY_PATCH;
        if !is_json {
            return Err(Failure::unsupported_media_type("application/json"));
        }
        serde_json::from_slice(&self.body)
            .map_err(|error| Failure::bad_request(format!("the request body is not JSON: {error}")))
    }

    /// Parameter `fieldManager`, else the program's name in `User-Agent`.
    pub(super) fn field_manager(&self) -> &str {
        match self.query.get("fieldManager") {
            Some(manager) if !manager.is_empty() => manager,
            _ => self.user_agent.split('/').next().filter(|name| !name.is_empty()).unwrap_or("unknown"),
        }
    }
}

impl Query {
    /// Reads `a=b&c=d`.
    pub fn parse(query: &str) -> Query {
        Query(form_urlencoded::parse(query.as_bytes()).into_owned().collect())
    }

    /// The first value of a parameter.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// Whether a boolean parameter is set.
    pub fn is_true(&self, key: &str) -> bool {
        matches!(self.get(key), Some("true" | "1"))
    }

    /// The same with another value of a parameter.
    #[must_use]
    pub fn with(&self, key: &str, value: &str) -> Query {
        let others = self.0.iter().filter(|(name, _)| name != key).cloned();
        Query(others.chain([(key.to_owned(), value.to_owned())]).collect())
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Verb {
    /// As roles name it: server-side apply is a patch.
    pub(super) fn of_rbac(self) -> Verb {
        if self == Verb::Apply { Verb::Patch } else { self }
    }
}

impl ResourcePath {
    fn new(group: &str, version: &str, rest: &[&str]) -> Option<ResourcePath> {
        let owned = |text: &&str| Some(text.to_string());
        let at = |namespace, plural: &str, name, subresource| {
            let (group, version) = (group.to_owned(), version.to_owned());
            Some(ResourcePath { group, version, namespace, plural: plural.to_owned(), name, subresource })
        };
        match rest {
            ["namespaces", name, sub @ ("status" | "finalize")] => at(None, "namespaces", owned(name), owned(sub)),
            ["namespaces", namespace, plural] => at(owned(namespace), plural, None, None),
            ["namespaces", namespace, plural, name] => at(owned(namespace), plural, owned(name), None),
            ["namespaces", namespace, plural, name, sub] => at(owned(namespace), plural, owned(name), owned(sub)),
            [plural] => at(None, plural, None, None),
            [plural, name] => at(None, plural, owned(name), None),
            [plural, name, sub] => at(None, plural, owned(name), owned(sub)),
            _ => None,
        }
    }
}

fn unreadable(why: &Unreadable) -> Failure {
    match why {
        Unreadable::UnknownKind { .. } => Failure::unsupported_media_type("application/json"),
        _ => Failure::bad_request(why.to_string()),
    }
}

fn virtual_place<'a, 'b>(provider: &str, export: &str, rest: &'b [&'a str]) -> (Place, &'b [&'a str]) {
    let (cluster, rest) = match rest {
        ["clusters", cluster, rest @ ..] => (Some(cluster.to_string()), rest),
        rest => (None, rest),
    };
    (Place::Virtual { provider: provider.to_owned(), export: export.to_owned(), cluster }, rest)
}

fn endpoint(segments: &[&str]) -> Endpoint {
    let resource = |group, version, rest| ResourcePath::new(group, version, rest).map(Endpoint::Resource);
    let group_version = |group: &str, version: &str| (group.to_owned(), version.to_owned());
    match segments {
        ["healthz" | "livez" | "readyz", ..] => Endpoint::Health,
        ["version"] => Endpoint::Version,
        ["api"] => Endpoint::CoreVersions,
        ["apis"] => Endpoint::Groups,
        ["apis", group] => Endpoint::Group(group.to_string()),
        ["api", version] => Endpoint::GroupVersion { group: String::new(), version: version.to_string() },
        ["apis", group, version] => {
            let (group, version) = group_version(group, version);
            Endpoint::GroupVersion { group, version }
        }
        ["openapi", "v3"] => Endpoint::OpenApiIndex,
        ["openapi", "v3", "api", version] => Endpoint::OpenApi { group: String::new(), version: version.to_string() },
        ["openapi", "v3", "apis", group, version] => {
            let (group, version) = group_version(group, version);
            Endpoint::OpenApi { group, version }
        }
        ["api", version, rest @ ..] => resource("", version, rest).unwrap_or(Endpoint::Unknown),
        ["apis", group, version, rest @ ..] => resource(group, version, rest).unwrap_or(Endpoint::Unknown),
        _ => Endpoint::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(request: Request) -> String {
        let call = request.call();
        let through = if call.through_virtual_workspace { " virtual" } else { "" };
        format!("{} {} {}|{}|{}{through}", call.verb, call.resource, call.cluster, call.namespace, call.name)
    }

    #[test]
    fn urls_become_calls() {
        let cases = [
            ("/api/v1/namespaces/a", "get namespaces ||a"),
            ("/api/v1/namespaces/a/configmaps", "list configmaps |a|"),
            ("/api/v1/namespaces/a/configmaps/b", "get configmaps |a|b"),
            ("/api/v1/configmaps?watch=1", "watch configmaps ||"),
            ("/clusters/root:a/apis/x.io/v1/things/b/status", "get things/status root:a||b"),
            ("/services/apiexport/root/e/clusters/*/apis/x.io/v1/things", "list things *|| virtual"),
            ("/services/apiexport/root/e/clusters/%2A/apis/x.io/v1/things", "list things *|| virtual"),
            ("/version", "get /version ||"),
        ];
        for (url, expected) in cases {
            assert_eq!(line(Request::get(url)), expected, "{url}");
        }
    }

    #[test]
    fn verbs_follow_the_method() {
        let body = Value::Null;
        assert_eq!(Request::apply("/api/v1/namespaces/a", &body).call().verb, Verb::Apply);
        assert_eq!(Request::delete("/api/v1/namespaces/a/configmaps").call().verb, Verb::DeleteCollection);
        assert_eq!(Request::delete("/api/v1/namespaces/a").call().verb, Verb::Delete);
    }

    #[test]
    fn the_manager_is_named_by_the_url_or_the_program() {
        let mut request = Request::get("/x?fieldManager=a%2Fb");
        request.user_agent = "kubectl/v1.32".into();
        assert_eq!(request.field_manager(), "a/b");
        request.query = Query::default();
        assert_eq!(request.field_manager(), "kubectl");
    }
}
