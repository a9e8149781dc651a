use std::collections::BTreeMap;
fn main(){ let mut c:BTreeMap<(String,String,&str),usize>=BTreeMap::new(); let mut ex:BTreeMap<&str,Vec<String>>=BTreeMap::new();
 for f in ["injections","benign"]{ for l in std::fs::read_to_string(format!("/work/shared/train/{f}.jsonl")).unwrap().lines(){
  let v:serde_json::Value=serde_json::from_str(l).unwrap(); let t=v["text"].as_str().unwrap();
  let d=palisade_scan::training::read(t).detectors;
  let lab=v["label"].as_str().unwrap().to_string();
  for x in &d { *c.entry((x.id.to_string(), lab.clone(), "any")).or_default()+=1; if d.len()==1 { *c.entry((x.id.to_string(), lab.clone(), "only")).or_default()+=1; if lab=="benign" { ex.entry(x.id).or_default().push(format!("{} {} {}", v["kind"],v["source"]["repo"], t.chars().take(300).collect::<String>().replace('\n',"\\n"))); } } }
 }}
 let ids:std::collections::BTreeSet<String>=c.keys().map(|k|k.0.clone()).collect();
 for id in ids { let g=|l:&str,o| c.iter().find(|(k,_)|k.0==id&&k.1==l&&k.2==o).map_or(0,|x|*x.1); println!("{id:36} inj {:5} only {:5} | benign {:4} only {:4} | hard {:4} only {:4}", g("injection","any"),g("injection","only"),g("benign","any"),g("benign","only"),g("hard_benign","any"),g("hard_benign","only")); }
 for (k,v) in ex { println!("== {k} {}",v.len()); let st=(v.len()/6).max(1); for e in v.iter().step_by(st).take(7){println!("   {e}");} }
}
