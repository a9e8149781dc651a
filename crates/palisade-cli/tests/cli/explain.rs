//! `palisade explain`: the trace of a decision as a tree, and as a page.

use std::fs;

use serde_json::Value;

use crate::desk::{Answer, BOT, Desk};

const SQL: &str =
    "SELECT c.email, count(*)\nFROM customers c\nWHERE c.name <> 'é' GROUP BY c.email";

fn explain(desk: &Desk, more: &[&str]) -> Answer {
    let base = [
        "explain",
        "sqlite:demo.db",
        "--policies",
        "demo-policies",
        "--as",
        BOT,
    ];
    desk.run(&[&base[..], more].concat())
}

/// Every place is where the text says what it touches.
#[test]
fn the_trace_names_the_places_of_what_is_touched() {
    let desk = Desk::new();
    let told = explain(&desk, &["--format", "json", SQL])
        .expect_exit(0)
        .json();
    let customers = &told["trace"]["relations"][0];
    let text = |place: &Value| {
        let (offset, length) = (&place["offset"], &place["length"]);
        let start = usize::try_from(offset.as_u64().unwrap()).unwrap();
        let end = start + usize::try_from(length.as_u64().unwrap()).unwrap();
        SQL[start..end].to_owned()
    };
    assert_eq!(text(&customers["places"][0]), "customers");
    assert_eq!(customers["places"][0]["line"], 2);
    let email = (customers["columns"].as_array().unwrap().iter())
        .find(|column| column["column"] == "email")
        .unwrap();
    let places = email["places"].as_array().unwrap();
    let uses: Vec<_> = places.iter().map(|place| &place["usage"]).collect();
    assert_eq!(uses, ["output", "group"], "{email}");
    assert!(
        places.iter().all(|place| text(place) == "c.email"),
        "{email}"
    );
    let deciding = told["deciding"].as_array().unwrap();
    let mask = deciding.iter().find(|one| one["policy"] == "mask.contact");
    assert_eq!(mask.unwrap()["effect"], "forbid", "{told}");
}

#[test]
fn the_tree_shows_policies_with_conditions_and_marks_what_is_changed() {
    let desk = Desk::new();
    let told = explain(&desk, &[SQL]).expect_exit(0).out;
    for part in [
        "main.customers at 2:6\n├─ rows: filtered\n",
        "email: mask fixed(***) for output at 1:8, group at 3:30\n",
        "mask.contact (forbid)\n",
        "when { resource.tags.contains(\"contact\") }",
        "\n- FROM customers c\n",
        "\n  SELECT c.email, count(*)",
        "\n+   (SELECT \"id\"",
    ] {
        assert!(told.contains(part), "`{part}` is not in\n{told}");
    }
    let refused = explain(&desk, &["SELECT * FROM credentials"])
        .expect_exit(1)
        .out;
    assert!(refused.contains("no.credentials (forbid)"), "{refused}");
}

/// The page loads nothing, runs nothing, and shows markup in a statement as the text that it is.
#[test]
fn the_page_is_whole_and_escaped() {
    let desk = Desk::new();
    let sql = "SELECT email FROM customers WHERE name = '<script>alert(1)</script>&'";
    explain(&desk, &["--html", "page.html", sql]).expect_exit(0);
    let page = fs::read_to_string(desk.path("page.html")).unwrap();
    assert!(!page.contains("<script"), "{page}");
    for part in [
        "&lt;script&gt;alert(1)&lt;/script&gt;&amp;",
        "default-src 'none'",
        "<mark title=\"main.customers.email: output, mask fixed(***)\">email</mark>",
        "<ins>(SELECT",
        "PERMITTED",
    ] {
        assert!(page.contains(part), "`{part}` is not in\n{page}");
    }
    for part in ["src=", "href=", "url(", "@import"] {
        assert!(!page.contains(part), "`{part}` is in\n{page}");
    }
    explain(&desk, &["--html", "no/page.html", sql]).fails(2, &["cannot write `no/page.html`"]);
}

/// Among the commands about policies it is found too.
#[test]
fn it_is_a_command_about_policies_too() {
    let desk = Desk::new();
    let more = ["--format", "json", SQL];
    let base = ["sqlite:demo.db", "--policies", "demo-policies", "--as", BOT];
    let told = desk.run(&[&["policy", "explain"][..], &base, &more].concat());
    let told = told.expect_exit(0).json();
    let same = explain(&desk, &more).expect_exit(0).json();
    assert_eq!(told["trace"], same["trace"]);
}
