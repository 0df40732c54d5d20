//! The AWS profile files: `~/.aws/credentials` and `~/.aws/config`, as the AWS tools read them.
//!
//! Static keys, region and endpoints are understood; a profile that gets its keys in another way
//! (role, SSO, process) is named, so that the caller can refuse it. Keys are also met in `config`.

use std::collections::HashMap;
use std::path::PathBuf;

use lakeserve_common::{Error, ErrorKind, Result};

use crate::options::Secret;

/// What one profile says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Profile {
    pub name: String,
    pub keys: Option<(String, Secret)>,
    pub session_token: Option<Secret>,
    pub region: Option<String>,
    pub endpoint_url: Option<String>,
    /// How it gets its keys, when that is not understood.
    pub unsupported: Option<String>,
}

type Sections = HashMap<String, HashMap<String, String>>;

/// Loads `name`, else the profile that `AWS_PROFILE` names, else `default` (which may be absent).
pub(crate) fn load(name: Option<&str>) -> Result<Profile> {
    let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let named = name.map(str::to_owned).or_else(|| variable("AWS_PROFILE")).or_else(|| variable("AWS_DEFAULT_PROFILE"));
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let file = |name, standard: &str| {
        let path = variable(name).map_or_else(|| home.join(standard), PathBuf::from);
        // An absent file says nothing.
        std::fs::read_to_string(path).unwrap_or_default()
    };
    let credentials = file("AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials");
    let config = file("AWS_CONFIG_FILE", ".aws/config");
    find(&credentials, &config, named.as_deref())
}

fn find(credentials: &str, config: &str, named: Option<&str>) -> Result<Profile> {
    let name = named.unwrap_or("default");
    let credentials = sections(credentials);
    let config = sections(config);
    let keys = credentials.get(name);
    let settings = config.get(&format!("profile {name}")).or_else(|| config.get(name).filter(|_| name == "default"));
    if named.is_some() && keys.is_none() && settings.is_none() {
        let message = format!("AWS profile `{name}` stands neither in the credentials nor in the config file");
        return Err(
            Error::new(ErrorKind::Option, message).with_hint("check AWS_PROFILE, or the profile in [[storage.stores]]")
        );
    }
    let value = |key: &str| {
        let value = keys.and_then(|section| section.get(key)).or_else(|| settings?.get(key));
        value.filter(|value| !value.is_empty()).cloned()
    };
    let service_endpoint = || {
        let services = config.get(&format!("services {}", value("services")?))?;
        services.get("s3.endpoint_url").cloned()
    };
    let ways = ["role_arn", "sso_session", "sso_start_url", "credential_process"];
    Ok(Profile {
        name: name.to_owned(),
        keys: value("aws_access_key_id").zip(value("aws_secret_access_key").map(Secret::new)),
        session_token: value("aws_session_token").map(Secret::new),
        region: value("region"),
        endpoint_url: service_endpoint().or_else(|| value("s3.endpoint_url")).or_else(|| value("endpoint_url")),
        unsupported: ways.into_iter().find(|way| value(way).is_some()).map(str::to_owned),
    })
}

/// Sections of an INI file. A key without a value opens a group: the indented lines below it are
/// kept as `group.key`.
fn sections(text: &str) -> Sections {
    let mut sections = Sections::new();
    let mut section: Option<String> = None;
    let mut group = String::new();
    for line in text.lines() {
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with(['#', ';']) {
            continue;
        }
        if let Some(name) = trimmed.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
            let name = name.split_whitespace().collect::<Vec<_>>().join(" ");
            sections.entry(name.clone()).or_default();
            section = Some(name);
            group.clear();
            continue;
        }
        let Some((section, (key, value))) = section.as_ref().zip(trimmed.split_once('=')) else {
            continue;
        };
        let (key, value) = (key.trim().to_ascii_lowercase(), without_comment(value));
        let nested = line.starts_with([' ', '\t']) && !group.is_empty();
        if !nested {
            group = if value.is_empty() { key.clone() } else { String::new() };
        }
        let key = if nested { format!("{group}.{key}") } else { key };
        sections.entry(section.clone()).or_default().insert(key, value.to_owned());
    }
    sections
}

/// A comment begins at ` #` or ` ;`; inside a value the signs stand for themselves.
fn without_comment(value: &str) -> &str {
    let end = [" #", " ;", "\t#", "\t;"].iter().filter_map(|mark| value.find(mark)).min().unwrap_or(value.len());
    value[..end].trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CREDENTIALS: &str = "\
[default]
aws_access_key_id = AKDEFAULT
aws_secret_access_key = s/e+c=ret # not part of it

[dev]
aws_access_key_id=AKDEV
aws_secret_access_key=devsecret
aws_session_token=tok==
";
    const CONFIG: &str = "\
[default]
region = eu-west-1
[profile dev]
region = us-west-2
services = local
[services local]
s3 =
  endpoint_url = http://127.0.0.1:9000
[profile role]
role_arn = arn:aws:iam::1:role/x
source_profile = default
";

    #[test]
    fn keys_region_and_endpoint_are_found() {
        let default = find(CREDENTIALS, CONFIG, None).unwrap();
        assert_eq!(default.keys, Some(("AKDEFAULT".into(), Secret::new("s/e+c=ret"))));
        assert_eq!(default.region.as_deref(), Some("eu-west-1"));
        let dev = find(CREDENTIALS, CONFIG, Some("dev")).unwrap();
        assert_eq!(dev.session_token, Some(Secret::new("tok==")));
        assert_eq!(dev.endpoint_url.as_deref(), Some("http://127.0.0.1:9000"));
    }

    #[test]
    fn absent_and_unsupported_profiles_are_named() {
        assert!(find(CREDENTIALS, CONFIG, Some("prod")).unwrap_err().to_string().contains("`prod`"));
        assert_eq!(find(CREDENTIALS, CONFIG, Some("role")).unwrap().unsupported.as_deref(), Some("role_arn"));
        assert_eq!(find("", "", None).unwrap(), Profile { name: "default".into(), ..Profile::default() });
    }
}
