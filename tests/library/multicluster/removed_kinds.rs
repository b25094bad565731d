//! When a kind counts as gone with all its objects.

use std::future::ready;

use http_body_util::Full;
use hyper::Response;
use serde_json::json;
use sync_engine::engine::target::{is_removed, is_resource_removed};
use sync_engine::mapping::Kind;
use sync_engine::multicluster::Endpoint;

use crate::multicluster::scene::{Server, connection, kubeconfig, serve};

/// A server that answers the discovery of a group with one code, and the read of a definition with another.
async fn server(discovery: u16, definition: u16) -> (Endpoint, Server) {
    let server = serve(move |request| {
        let is_definition = request.uri().path().ends_with("/customresourcedefinitions/widgets.example.dev");
        let code = if is_definition { definition } else { discovery };
        let status = json!({
            "kind": "Status", "code": code, "reason": if code == 404 { "NotFound" } else { "Other" },
            "details": {"name": "widgets.example.dev"},
        });
        let body = if code == 200 { json!({"resources": []}) } else { status }.to_string();
        ready(Response::builder().status(code).body(Full::from(body)).unwrap())
    })
    .await;
    (connection(&kubeconfig(&server.url, json!({}))).endpoint(), server)
}

#[tokio::test]
async fn only_a_missing_definition_says_that_a_kind_is_gone() {
    let widget = Kind::new("example.dev", "v1", "Widget");
    let cases = [
        ("its definition is missing", 404, 404, Some(true)),
        ("discovery has others of its group", 200, 404, Some(true)),
        ("its definition exists", 404, 200, Some(false)),
        ("its definition may not be read", 404, 403, None),
        ("the server of its API is away", 503, 404, Some(false)),
        ("discovery may not be read", 403, 404, Some(false)),
    ];
    for (case, discovery, definition, expected) in cases {
        let (endpoint, _server) = server(discovery, definition).await;
        for plural in [Some("widgets"), None] {
            assert_eq!(is_removed(&endpoint, &widget, plural).await.ok(), expected, "{case}, {plural:?}");
        }
        assert_eq!(is_resource_removed(&endpoint, &widget.resource("widgets")).await.ok(), expected, "{case}");
    }
    let (endpoint, _server) = server(404, 404).await;
    for group in ["", "apps", "rbac.authorization.k8s.io"] {
        let built_in = Kind::new(group, "v1", "Widget");
        let is_gone = async |plural| is_removed(&endpoint, &built_in, plural).await.ok();
        assert_eq!(is_gone(Some("widgets")).await, Some(false), "{group:?} has no definitions");
        assert_eq!(is_gone(None).await, Some(true), "it was never served");
        assert_eq!(is_resource_removed(&endpoint, &built_in.resource("widgets")).await.ok(), Some(false), "{group:?}");
    }
}
