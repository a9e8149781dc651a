//! scratch
fn main() {
    let corpus =
        palisade_corpus::Corpus::load(std::env::args().nth(1).unwrap_or("corpus".into())).unwrap();
    let runner = palisade_corpus::Runner::new(&corpus).unwrap();
    for case in &corpus.cases {
        let a = runner.answer(case).unwrap();
        println!(
            "{}",
            serde_json::json!({"name": case.name, "sql": case.sql, "code": a.code, "json": a.json, "rewritten": a.rewritten, "policies": a.policies, "detail": a.detail})
        );
    }
}
