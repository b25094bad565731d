//! When a credential ends, as the credential itself says it. Pure.

use data_encoding::BASE64URL_NOPAD;
use k8s_openapi::jiff::Timestamp;
use serde::Deserialize;
use x509_parser::pem::Pem;

/// The end of a bearer token that is a JWT (RFC 7519, claim `exp`). Its signature is the server's to check.
pub(super) fn of_token(token: &str) -> Option<Timestamp> {
    #[derive(Deserialize)]
    struct Claims {
        exp: f64,
    }
    let mut parts = token.split('.');
    let (_, claims, _, None) = (parts.next()?, parts.next()?, parts.next()?, parts.next()) else { return None };
    let claims = BASE64URL_NOPAD.decode(claims.as_bytes()).ok()?;
    let Claims { exp } = serde_json::from_slice(&claims).ok()?;
    Timestamp::from_second(exp as i64).ok()
}

/// The end of the first certificate of a PEM file: the others lead from it to the authority.
pub(super) fn of_certificate(pem: &[u8]) -> Option<Timestamp> {
    let first = Pem::iter_from_buffer(pem).find_map(|block| block.ok().filter(|block| block.label == "CERTIFICATE"))?;
    let certificate = first.parse_x509().ok()?;
    Timestamp::from_second(certificate.validity().not_after.timestamp()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_ends_when_its_claim_says_so() {
        let token = |claims: &str| format!("e30.{}.c2ln", BASE64URL_NOPAD.encode(claims.as_bytes()));
        assert_eq!(of_token(&token(r#"{"exp": 1767225600, "sub": "a"}"#)), "2026-01-01T00:00:00Z".parse().ok());
        for other in ["abcdef", "a.b.c", "", &token("{}"), &token(r#"{"exp": 1e300}"#), &format!("{}.x", token("{}"))] {
            assert_eq!(of_token(other), None, "{other}");
        }
    }

    #[test]
    fn a_certificate_ends_when_its_validity_says_so() {
        let mut parameters = rcgen::CertificateParams::new(vec!["engine".into()]).expect("parameters");
        parameters.not_after = rcgen::date_time_ymd(2031, 5, 4);
        let key = rcgen::KeyPair::generate().expect("a key");
        let pem = parameters.self_signed(&key).expect("a certificate").pem();
        assert_eq!(of_certificate(pem.as_bytes()), "2031-05-04T00:00:00Z".parse().ok());
        assert_eq!(of_certificate(key.serialize_pem().as_bytes()), None, "a key is none");
        assert_eq!(of_certificate(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), None);
    }
}
