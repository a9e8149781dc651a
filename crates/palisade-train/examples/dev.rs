use std::collections::BTreeMap; use palisade_scan::*;
fn main(){ let verbose=std::env::args().nth(1);
 for (f,k) in [("injection_texts","tier"),("benign_texts","kind")]{ let mut m:BTreeMap<String,[usize;5]>=BTreeMap::new();
 for l in std::fs::read_to_string(format!("/work/shared/eval/{f}.jsonl")).unwrap().lines(){ let v:serde_json::Value=serde_json::from_str(l).unwrap(); let t=v["text"].as_str().unwrap();
  let key=v[k].as_str().unwrap().to_string(); let mut key2=key.clone(); if v["label_noise"]==true {key2.push_str(" (noise)");}
  let mut r=[1,0,0,0,0]; for (i,s) in [Sensitivity::Strict,Sensitivity::Balanced,Sensitivity::Quiet].into_iter().enumerate(){ let d=Scanner::with_sensitivity(s).detect(t.as_bytes()); if !d.is_empty(){r[i+1]=1;} if i==1 && !d.is_empty() && k=="kind" && verbose.is_some() { println!("{key} {:?} {:.200?}", d.iter().map(|d|d.id).collect::<Vec<_>>(), t);} if i==0 && d.iter().any(|d|!d.id.starts_with("score")) {r[4]=1;} }
  for key in [key2, if k=="tier" {"all".into()} else if key.starts_with("notinject"){"all notinject".into()} else {"all benign".to_string()}] { let e=m.entry(key).or_default(); for i in 0..5 {e[i]+=r[i];} } }
 for (k,e) in m { println!("{k:36} {:5} strict {:5.1} balanced {:5.1} ({}) quiet {:5.1}  patterns {:5.1}",e[0],100.*e[1] as f64/e[0] as f64,100.*e[2] as f64/e[0] as f64,e[2],100.*e[3] as f64/e[0] as f64,100.*e[4] as f64/e[0] as f64);} }
}
