//! Tests of secrets after a label, and of what looks like them in source code.

use crate::redact::testing::{assert_no_secret, redacted};

#[test]
fn a_labelled_secret_is_redacted_without_its_label() {
    for (before, after) in [
        ("password = \"", "\""),
        ("DB_PASSWORD=", "\n"),
        ("export API_TOKEN=", " && run"),
        ("\"client_secret\": \"", "\", \"b\": 1"),
        (r#"{\"password\": \""#, r#"\", \"b\": 1}"#),
        (r#"{\\\"api_key\\\":\\\""#, r#"\\\"}"#),
        ("config['secret_key'] = '", "'"),
        ("const apiKey: string = '", "';"),
        ("pub const TOKEN: &'static str = \"", "\";"),
        ("auth_token => '", "',"),
        ("tok --access-token=", " x"),
        ("tok --password ", " x"),
        ("GET /a?access_token=", "&b=1"),
        ("<password>", "</password>"),
        ("password := \"", "\""),
        ("spring.datasource.password=", ""),
    ] {
        let text = format!("{before}a8Kd0f3Lq9Zx{after}");
        assert_eq!(redacted(&text), format!("{before}[redacted:labelled_secret]{after}"));
    }
}

#[test]
fn source_code_and_names_are_kept() {
    for text in [
        "password: string;",
        "let token = next_token();",
        "password = get_password()",
        "const token: Token = lexer.next();",
        "password=os.environ['DB_PASSWORD1']",
        "token = process.env.TOKEN_V2",
        "secret: ${SECRET_1A2B3C}",
        "api_key = None",
        "api_key: null",
        "password = \"changeme\"",
        "token == \"a8Kd0f3Lq9Zx\"",
        "Token::A1b2C3d4E5",
        "arn:aws:secretsmanager:us-west-2:123456789012:secret:MyDb-a1b2c3",
        "\"AWS::IAM::AccessKey\": \"48205d4ffd7feba3\"",
        "primary_key=a1b2c3d4e5f6a7b8c9",
        "self.token = token_v1_2a3b[0]",
        "PWD=/home/u1/a2b3c4d5",
        "sort_key: 'a8Kd0f3Lq9Zx'",
        "password: &str, token: Option<Token2022>",
        "PRIMARY_KEY=a1b2c3d4e5f6a7b8c9",
        "FOREIGN_KEY=a1b2c3d4e5f6a7b8c9",
        "CACHE_KEY=a1b2c3d4e5f6a7b8c9",
        "SORT_KEY=a1b2c3d4e5f6a7b8c9",
        "PARTITION_KEY=a1b2c3d4e5f6a7b8c9",
        "S3_KEY=path/to/file1a2b3.txt",
        "LAYER_KEY=path/to/file1a2b3c4d.txt",
        "LAYER_KEY=build:1a2b3c4d5e6f7a8b",
        "LAYER_KEY=\"build 1a2b3c4d5e6f7a8b\"",
        "secret: my-tls-secret-v1a2b3c4",
        "secret: \"my-tls-secret-v1a2b3c4\"",
        "secretName: my-tls-secret-v1a2b3c4",
        "credentials: \"include1a2b\"",
        "token: 'sha256:9f86d081884c7d659a2feaa0c55ad015'",
        "max_tokens=4096, token_type=\"bearer\"",
    ] {
        assert_no_secret(text);
    }
}

#[test]
fn the_credential_of_a_header_is_redacted_without_its_scheme() {
    for before in [
        "Authorization: Bearer ",
        "curl -H 'authorization: Basic ",
        "\"Authorization\": \"token ",
        r#"\"authorization\":\"Bearer "#,
        "Proxy-Authorization: ",
    ] {
        let text = format!("{before}a8Kd0f3Lq9Zx77_bQ\"");
        assert_eq!(redacted(&text), format!("{before}[redacted:authorization]\""));
    }
    assert_eq!(
        redacted("Authorization: Basic dXNlcjpwYXNz"),
        "Authorization: Basic [redacted:authorization]"
    );
    assert_eq!(redacted("x-api-key: a8Kd0f3Lq9Zx"), "x-api-key: [redacted:api_key_header]");
    assert_no_secret("Authorization: Bearer token");
    assert_no_secret("Authorization: Bearer $TOKEN_1234");
    assert_no_secret("Authorization: Bearer <token-1234>");
    assert_no_secret("Authorization: Bearer YOUR_API_KEY");
    assert_no_secret("Authorization: `Bearer ${token1234}`");
    assert_no_secret("authorization: Basic authentication");
    assert_no_secret("Authorization: AWS4-HMAC-SHA256 Credential=a/b/c");
    assert_no_secret("a Bearer token of ours");
    assert_no_secret("x-api-key: YOUR_KEY");
}

#[test]
fn secrets_that_resemble_names_and_digests_are_redacted() {
    for (before, value) in [
        ("STRIPE_KEY=", "a1b2c3d4e5f6a7b8c9"),
        ("APP_KEY=", "base64:a1b2c3d4e5f6a7b8c9/d0="),
        ("secret: ", "a1b2-c3d4-e5f6a7b8c9"),
        ("SECRET=", "my-own-v1a2b3c4"),
        ("credentials: \"", "a1b2c3d4e5f6a7b8"),
        ("token: '", "sha9f86d081884c7d65"),
    ] {
        let text = format!("{before}{value}");
        assert_eq!(redacted(&text), format!("{before}[redacted:labelled_secret]"));
    }
}

#[test]
fn keys_of_aws_and_azure_have_their_own_kinds() {
    let aws = concat!("wJalrXUtnFEMI/K7MDENG", "/bPxRfiCYzzzzzzzKEY");
    for (before, after) in [
        ("aws_secret_access_key = ", "\n"),
        ("AWS_SECRET_ACCESS_KEY=", ""),
        ("\"SecretAccessKey\": \"", "\""),
        ("secret_access_key: ", "\n"),
    ] {
        let text = format!("{before}{aws}{after}");
        assert_eq!(redacted(&text), format!("{before}[redacted:aws_secret_key]{after}"));
    }
    let azure =
        "Zk1vXoJ8yTgq2mR5sW9dLfHc3uNxPz6aYtVb0eKjIrQwb3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAE==";
    assert_eq!(
        redacted(&format!("AccountName=a;AccountKey={azure};EndpointSuffix=b")),
        "AccountName=a;AccountKey=[redacted:azure_key];EndpointSuffix=b"
    );
    assert_no_secret("AccountKey=none;x");
    assert_no_secret("aws_secret_access_key = var.secret");
}

#[test]
fn only_the_password_of_a_connection_string_is_redacted() {
    assert_eq!(
        redacted("Server=db;User Id=sa;Password=Tr0ub4dor;Encrypt=true"),
        "Server=db;User Id=sa;Password=[redacted:connection_password];Encrypt=true"
    );
    assert_eq!(
        redacted("\"Pwd=p@ssphr4se;Server=db\""),
        "\"Pwd=[redacted:connection_password];Server=db\""
    );
    assert_no_secret("Server=db;Password={0};Encrypt=true");
    assert_no_secret("a();password=b.c;d()");
}

#[test]
fn a_twilio_key_is_recognised_by_its_label() {
    let key = concat!("SK", "0123456789abcdef0123456789abcdef");
    assert_eq!(redacted(&format!("TWILIO_API_KEY={key}")), "TWILIO_API_KEY=[redacted:twilio_key]");
    assert_no_secret(&format!("sid {key}"));
    assert_no_secret("TWILIO_ACCOUNT_SID=AC0123456789abcdef0123456789abcdef");
}
