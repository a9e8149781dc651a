fn main(){ let k=std::env::args().nth(1).unwrap(); let mut n=0;
 for l in std::fs::read_to_string("/work/shared/train/injections.jsonl").unwrap().lines(){
  let v:serde_json::Value=serde_json::from_str(l).unwrap(); let t=v["text"].as_str().unwrap(); if v["kind"]!=k.as_str() || v["use"]!="train" {continue;}
  let r=palisade_scan::training::read(t); let (p,d)=(r.passages,r.detectors); if p.is_empty() && d.is_empty() { n+=1; println!("{} {} {:.200?}", v["lang"], v["source"]["repo"], t); } }
 println!("{n}");
}
