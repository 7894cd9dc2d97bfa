//! What sources give, and what is refused.

use super::*;

fn configure(flags: &Flags, variables: &[(String, String)], file: &str) -> Result<Config> {
    Config::check(sources::combine(flags, variables, Some(("f.toml", file)))?)
}

fn check(flags: &[&str], variables: &[(&str, &str)], file: &str, expected: Result<&str, &str>) {
    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        flags: Flags,
    }
    let line = <Line as clap::Parser>::parse_from([&["pleach"], flags].concat());
    let variables: Vec<(String, String)> = variables.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
    let got = configure(&line.flags, &variables, file);
    match (got, expected) {
        (Ok(config), Ok(line)) => {
            let text = config.render();
            assert!(text.lines().any(|l| l == line), "no line [{line}] in\n{text}");
            let again = configure(&Flags::default(), &[], &text).unwrap();
            assert_eq!(again.listen, config.listen, "what --print-config says can be read again");
        }
        (Err(error), Err(part)) => assert!(error.reason().contains(part), "{error}"),
        (got, expected) => panic!("{:?} instead of {expected:?}", got.map(|c| c.render())),
    }
}

#[test]
fn sources() {
    check(&[], &[], "", Ok(r#"listen = ["127.0.0.1:9200=es8"]"#));
    check(&[], &[], "http.port = 9300", Ok(r#"listen = ["127.0.0.1:9300=es8"]"#));
    check(
        &[],
        &[("PLEACH_HTTP_PORT", "9400")],
        "http.port = 9300",
        Ok(r#"listen = ["127.0.0.1:9400=es8"]"#),
    );
    check(
        &["--listen", "127.0.0.1:0=es2"],
        &[("PLEACH_HTTP_PORT", "9400")],
        "",
        Ok(r#"listen = ["127.0.0.1:0=es2"]"#),
    );
    check(
        &["-E", "http.port=9500"],
        &[("PLEACH_LISTEN", "1234,1235=es9")],
        "",
        Ok(r#"listen = ["127.0.0.1:9500=es8"]"#),
    );
    check(
        &[],
        &[("PLEACH_LISTEN", "1234,1235=es9")],
        "persona = 'es7'",
        Ok(r#"listen = ["127.0.0.1:1234=es7", "127.0.0.1:1235=es9"]"#),
    );
    check(&[], &[], "[cluster]\nname = 'blue'", Ok(r#"cluster_name = "blue""#));
    check(
        &["--listen", "0.0.0.0:9200", "--insecure-listen"],
        &[],
        "",
        Ok(r#"listen = ["0.0.0.0:9200=es8"]"#),
    );
    check(
        &[
            "--listen",
            "0.0.0.0:9200",
            "--tls-certificate",
            "a",
            "--tls-key",
            "b",
            "--tls-client-ca",
            "c",
        ],
        &[],
        "",
        Ok(r#"http.tls.client_ca = "c""#),
    );
    check(&["--data", "x"], &[], "path.data = 'y'", Ok(r#"data = "x""#));
    check(
        &["--log-level", "warn,http=debug"],
        &[],
        "",
        Ok(r#"log.level = "warn,http=debug""#),
    );
    check(&[], &[], "log.format = 'json'", Ok(r#"log.format = "json""#));
    check(
        &[],
        &[],
        "http.max_content_length = '5mb'",
        Ok(r#"http.max_content_length = "5mb""#),
    );
    check(
        &["-E", "action.destructive_requires_name=false"],
        &[("PLEACH_HTTP_ALLOWED_HOSTS", "search.example, es")],
        "",
        Ok(r#"http.allowed_hosts = "search.example, es""#),
    );
    check(
        &[],
        &[("PLEACH_SERVICE_HOST", "10.0.0.1")],
        "network.host = '::1'",
        Ok(r#"listen = ["[::1]:9200=es8"]"#),
    );
}

#[test]
fn connections_follow_the_limit_of_open_files() {
    let mut config = configure(&Flags::default(), &[], "").unwrap();
    config.bound_connections(1 << 20);
    assert_eq!(config.connections_bounded, None, "there is room for all");
    config.bound_connections(1024);
    let bound = config.connections_bounded.clone().unwrap_or_default();
    assert!(bound.contains("[768] instead of [16384]"), "{bound}");
    assert!(config.render().contains("lowered from 16384"), "{}", config.render());
    let row = config
        .fixed
        .iter()
        .find(|(s, _)| s.name == settings::HTTP_MAX_CONNECTIONS.name);
    assert_eq!(row.map(|(_, value)| *value), Some(768));
}

#[test]
fn refusals() {
    check(&[], &[], "cluster.nam = 'x'", Err("did you mean [cluster.name]?"));
    check(&[], &[("PLEACH_PERSOAN", "es8")], "", Err("did you mean [PLEACH_PERSONA]?"));
    check(&["-E", "http.prot=1"], &[], "", Err("did you mean [http.port]?"));
    check(&["-E", "http.port"], &[], "", Err("write NAME=VALUE"));
    check(&["--persona", "es5"], &[], "", Err("did you mean"));
    check(
        &["--listen", "0.0.0.0:9200"],
        &[],
        "",
        Err("refusing to listen on [0.0.0.0:9200]"),
    );
    check(&[], &[], "network.host = '192.168.1.1'", Err("without TLS and users"));
    let with_tls = ["--listen", "0.0.0.0:1", "--tls-certificate", "a", "--tls-key", "b"];
    check(&with_tls, &[], "security.enabled = false", Err("[security.enabled] is false"));
    check(&with_tls, &[], "", Ok(r#"listen = ["0.0.0.0:1=es8"]"#));
    check(
        &["--listen", "0.0.0.0:1"],
        &[],
        "security.enabled = true",
        Err("without TLS everybody on the way"),
    );
    check(
        &[],
        &[],
        "security.audit.events = 'acces_denied'",
        Err("did you mean [access_denied]?"),
    );
    check(&["--tls-certificate", "a"], &[], "", Err("without [http.tls.key]"));
    check(
        &["--tls-client-ca", "a"],
        &[],
        "",
        Err("[http.tls.client_ca] is given without [http.tls.certificate]"),
    );
    check(&["--listen", "nowhere"], &[], "", Err("ADDR:PORT"));
    check(&[], &[], "search.max_buckets = 1", Err("PUT /_cluster/settings"));
    check(&[], &[], "index.refresh_interval = '1s'", Err("the settings of an index"));
    check(&[], &[], "search.max_concurrent = 'many'", Err("whole number"));
    check(&[], &[], "changes.path = 'fast'", Err("one of [auto, portable]"));
    check(&[], &[], "http.max_content_length = '5'", Err("unit"));
    check(
        &["-E", "http.busy_poll=2ms"],
        &[],
        "",
        Err("[http.busy_poll] is [2ms] but must be at most [1ms]"),
    );
    check(
        &["-E", "threads.preemption_tick=10micros"],
        &[],
        "",
        Err("[threads.preemption_tick] is [10micros] but must be [0] or between [100micros] and [100ms]"),
    );
    check(&["-E", "http.allowed_hosts=http://x"], &[], "", Err("must be a host name"));
    check(
        &["-E", "http.cors.allow-origin=https://a.example"],
        &[],
        "",
        Err("has no effect while [http.cors.enabled] is false"),
    );
    check(&["-E", "http.cors.enabled=true"], &[], "", Err("allows nobody"));
    check(&["-E", "http.cors.enabled=yes"], &[], "", Err("must be true or false"));
    check(
        &["-E", "http.cors.enabled=true", "-E", "http.cors.allow-origin=/https?:.*/"],
        &[],
        "",
        Ok(r#"http.cors.allow-origin = "/https?:.*/""#),
    );
    for (setting, part) in [
        ("http.cors.allow-origin=/https?:(/", "which is no expression"),
        ("http.cors.allow-origin=https://*.example", "must be an origin"),
        ("http.cors.allow-methods=GET POST", "has [GET POST], which is no name"),
        ("http.cors.allow-headers=a:b", "has [a:b], which is no name"),
        ("http.cors.max-age=1d", "whole number of seconds"),
        ("http.cors.allow-credentials=true", "would let every web page act"),
    ] {
        let origin = if setting.contains("origin") {
            "http.cors.enabled=true"
        } else {
            "http.cors.allow-origin=*"
        };
        check(
            &["-E", "http.cors.enabled=true", "-E", origin, "-E", setting],
            &[],
            "",
            Err(part),
        );
    }
    check(
        &["-E", "http.cors.max-age=5"],
        &[],
        "",
        Err("has no effect while [http.cors.enabled] is false"),
    );
    check(&["-E", "http.trusted_proxies=10.0.0.0/40"], &[], "", Err("has [10.0.0.0/40]"));
    check(&["--listen", "unix:/run/"], &[], "", Err("is no unix socket"));
    check(
        &["--listen", "unix:p.sock=es2"],
        &[],
        "",
        Ok(r#"listen = ["unix:p.sock=es2"]"#),
    );
    let flood = "cluster.routing.allocation.disk.watermark.flood_stage";
    check(&["-E", &format!("{flood}=1gb")], &[], "", Err("unable to consistently parse"));
    check(&["-E", &format!("{flood}=99%")], &[], "", Ok(&format!("{flood} = \"99%\"")));
    check(
        &["-E", "action.destructive_requires_name=1"],
        &[],
        "",
        Err("must be true or false"),
    );
    check(&[], &[], "data = ", Err("not TOML"));
    check(&["--log-level", "inf"], &[], "", Err("did you mean [info]?"));
    check(&[], &[("PLEACH_LOG_FORMAT", "jsno")], "", Err("did you mean [json]?"));
}
