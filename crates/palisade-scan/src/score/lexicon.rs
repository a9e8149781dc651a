//! The words that can raise the score, by what they signal, in some sixty languages.
//!
//! A word is found at the beginning of words only, where it begins with a Latin letter, and may go on: `instruct` is found in
//! `instructions`. `!` ends the word, `_` is a space. Accents may be left out, and a capital may stand first.

use crate::score::signal::Signal;

/// The words of each signal, separated by spaces.
pub(crate) const LEXICON: &[(Signal, &str)] = &[
    (Signal::Override, OVERRIDE),
    (Signal::Prior, PRIOR),
    (Signal::Orders, ORDERS),
    (Signal::Prompt, PROMPT),
    (Signal::Model, MODEL),
    (Signal::RoleFrame, ROLE_FRAME),
    (Signal::NewRule, NEW_RULE),
    (Signal::Reveal, REVEAL),
    (Signal::Secret, SECRET),
    (Signal::Send, SEND),
    (Signal::Address, ADDRESS),
    (Signal::Tool, TOOL),
    (Signal::Unbound, UNBOUND),
    (Signal::TurnMark, TURN_MARK),
    (Signal::Urgency, URGENCY),
    (Signal::Secrecy, SECRECY),
    (Signal::Authority, AUTHORITY),
    (Signal::Dictation, DICTATION),
    (Signal::Task, TASK),
    (Signal::Recipient, RECIPIENT),
    (Signal::Holdings, HOLDINGS),
    (Signal::Fiction, FICTION),
    (Signal::Reading, READING),
    (Signal::Finish, FINISH),
    (Signal::Encoding, ENCODING),
    (Signal::Key, KEY),
    (Signal::Compose, COMPOSE),
    (Signal::Ask, ASK),
    (Signal::How, HOW),
];

const OVERRIDE: &str = "ignore ignoring disregard forget override overrid bypass circumvent neglect! dismiss discard overlook! \
    supersede nullif do_not_follow don't_follow dont_follow stop_following not_obey stop_obeying do_not_obey set_aside put_aside \
    pay_no_attention do_not_listen don't_listen instead_of_follow rather_than_follow no_longer_bound no_longer_apply abandon! skip_the skip_all \
    dhyan_na dhyaan_na dhyan_mat dhyaan_mat ध्यान_न ध्यान_मत anudekha nazarandaz हटाओ तोड़ो बायपास deaktivier schalte_ desactiva désactive contourne desative disattiva отключи сними_ kaldır! عطل تجاوز أزل 关闭 解除 取消 무효 해제 폐기 無効 tắt_ matikan neamhaird dearmad dìochuimhnich injoro harro! shpërfill khohlwa \
    erase_your erase_all delete_your delete_all wipe_your clear_your reset_your unlearn throw_out drop_your drop_all drop_the \
    disable! disabled! disable_ deactivat turn_off switch_off suspend lift_ waive revoke remove_your remove_all unlock_your evade sidestep get_around stop_being \
    ignorier vergiss vergessen missacht umgeh überschreib übergeh negeer vergeet ignorér ignorera ignorer glem_ glöm unohda jätä_huomiotta \
    ignora! ignoren ignorar ignorad ignores olvida olvídate olvide omite! omitir desestima descarta haz_caso_omiso no_sigas pasa_por_alto \
    desconsider esqueça esquece não_siga oubli ignorez ne_suis_pas ne_tiens_pas_compte ne_tenez_pas_compte fais_abstraction faites_abstraction \
    dimentica ignorate ignori! trascura tralascia scorda non_seguire ignoră uită \
    zignoruj ignoruj zapomnij pomiń pomin zapomeň nedbej nerespektuj hagyd_figyelmen felejtsd \
    игнорир проигнорир забудь забудьте пренебре обойди отмени_все не_следуй ігноруй забудь_про αγνόησε αγνοήστε ξέχασε ξεχάστε παράβλεψε \
    yoksay yok_say görmezden unut! dikkate_alma abaikan lupakan bỏ_qua quên_đi phớt_lờ puuza sahau huwag_pansinin kalimutan \
    تجاهل انس_ انسى تغاض نادیده فراموش نظرانداز بھول התעלם התעלמי תתעלם שכח \
    अनदेखा नज़रअंदाज़ नजरअंदाज भूल_जा उपेक्षा উপেক্ষা ভুলে_যা புறக்கணி మర్చిపో విస్మరించ ละเว้น เพิกเฉย ไม่ต้องสนใจ ลืม \
    忽略 无视 無視 忘记 忘記 忘掉 不要理会 不要遵 跳过 绕过 繞過 忘れて 従わない 무시 잊어 잊으 따르지_마 우회 ignore_kar bhool_jao bhul_jao \
    slepptu hunsa gleymdu ignoruok pamiršk nepaisyk ignorē aizmirsti ignoreeri unusta! nəzərə_alma yaddan_çıxar anwybydd anghofi बेवास्ता बिर्स अवहेलना दरकिनार न_मान मत_मान दुर्लक्षित विसरा prezri pozabi ne_upoštevaj занемари заборави игнориш zanemari zaboravi ignoriši ігнаруй забудзь пренебрегни игнорирай игнорирај oblida! descarta! ahaztu esquece անտես մոռաց უგულებელყ დაივიწყ елеме ұмыт eʼtiborsiz үл_тоо અવગણ ભૂલી_જ ਨਜ਼ਰਅੰਦਾਜ਼ ਭੁੱਲ ನಿರ್ಲಕ್ಷ ಮರೆತು അവഗണി മറക്ക නොසලකා අමතක មិនអើពើ បំភ្លេច ignoreer yi_watsi manta_da foju! gbagbe injora! leig_seachad scaoil ziba! ungayinaki chhodkar hatao! hata_do nghe_theo đừng_tuân không_tuân không_tu ไม่ต้องทำตาม befolge beachte_die ne_suis_plus no_obedezcas non_seguire не_подчиняйся لا_تتبع عطّل 不要听从 不要执行 停用 従わず 따르지_말";

const PRIOR: &str = "previous prior! above! earlier! preceding foregoing initial_ original_ existing_ everything_you all_your any_other so_far! up_to_now! until_now! before_this \
    vorherig obig bisherig früher vorangeg eerdere voorgaande bovenstaande vorige tidigare ovanstående tidligere ovenstående forrige aiemmat edelliset \
    anterior previa previo precedent précédent antérieur ci-dessus arriba acima de_cima prévia prévio di_prima sopra! \
    poprzedni powyższ wcześniej předchoz výše korábbi előző предыдущ выше прежни ранее попередн προηγούμεν παραπάνω \
    önceki yukarıdaki sebelumnya di_atas trước phía_trên iliyotangulia nakaraan \
    السابق أعلاه سابقة قبلی پیشین پچھل הקודמ לעיל पिछल पिछे पूर्व_ उपरोक्त আগের পূর্ববর্তী முந்தைய మునుపటి ก่อนหน้า ข้างต้น \
    之前 以前 以上 先前 前面 上面 上述 上記 前の これまで 이전 앞선 위의 기존 지금까지 pehle_ke pichle pichhle";

const ORDERS: &str = "nirdesh aadesh niyam treoracha rialacha stiùireadh udhëzim rregulla imiyal imithetho फ़िल्टर प्रतिबंध सीमाएँ नीति आदेश filtros filtres filtri фильтр القيود 过滤 審査 限制 フィルター 制限 필터 제한 인격 \
    instruction directive guideline rules! your_rule constraint restriction guardrail safeguard your_programming your_training \
    content_polic safety_polic security_polic safety_measure safety_filter safety_protocol security_protocol security_measure ethical_ moral_ your_policy your_policies \
    safety_feature safety_rule safety_guideline safety_training safety_check safety_system content_filter your_filter your_safety your_refus refusal refuse! refuse_ limitation your_limit censorship your_boundar \
    your_alignment your_config your_settings directions_you orders! you_were_told you_have_been_told you've_been_told you_were_given you've_been_given you_were_instructed you_received you_are_allowed you_are_forbidden \
    anweisung instruktion vorgaben richtlinie regeln! befehle einschränkung aanwijzing regels! richtlijn instruksjon regler! ohjeet ohjeita säännöt \
    instrucci indicacion reglas! directriz directrices restriccion instruç regras! diretriz restriç consigne règles directive contrainte \
    istruzion regole! direttiv vincol instrucțiun regulile instrukcj polece zasady! wytyczn pokyn instrukc pravidl utasítás szabály \
    инструкц указани правила! правил_ команды! ограничени директив інструкц вказівк οδηγί κανόνες εντολές \
    talimat kurallar! yönerge instruksi arahan perintah aturan chỉ_dẫn hướng_dẫn chỉ_thị quy_tắc maagizo maelekezo tagubilin panuto \
    تعليمات التعليمات القواعد أوامر الأوامر القيود دستورالعمل دستورات قوانین ہدایات הוראות ההוראות כללים הנחיות \
    निर्देश नियम आदेश হুকুম নির্দেশ নিয়ম அறிவுறுத்த வழிமுறை సూచన คำสั่ง คำแนะนำ กฎ \
    指令 指示 规则 規則 命令 限制 约束 指引 ルール 制約 지시 명령 규칙 지침 제한 instructions_ko nirdesh niyam \
    leiðbeining fyrirmæl instrukcij nurodym taisykl norādījum noteikum juhise reeglid təlimat qaydalar gyfarwyddiad reolau निर्देशन navodila uputstva упутства упатства інструкцы указанн ўказанн указания instruccions jarraibide instrución udhëzime rregullat հրահանգ կանոն ინსტრუქც წესი нұсқау ережелер koʻrsatma qoidalar заавар зааврыг дүрм સૂચના નિયમો ਹਦਾਇਤ ਨਿਯਮ ಸೂಚನೆ ನಿಯಮ നിർദ്ദേശ നിയമങ്ങ උපදෙස් ការណែនាំ instruksies umarnin dokokin ilana_ istruzzjoni treoracha stiùiridh imiyalo imithetho suraksha jaanch मार्गदर्शन सुरक्षा_उपाय चेतावन systemanweisung أوامري";

const PROMPT: &str = "words_above text_above lines_above message_above content_above above_text above_words above_content everything_above everything_before came_before appears_before preamble your_context your_first_message in_your_memory system_role \
    prompt! prompts! system_prompt system_message system_instruction hidden_instruction initial_instruction developer_message context_window \
    secret_instruction internal_instruction original_instruction your_instruction your_guideline your_system systemprompt systemnachricht \
    mensaje_del_sistema instrucciones_del_sistema prompt_del_sistema prompt_système message_système prompt_di_sistema prompt_do_sistema promptu_systemow \
    системн промпт подсказк συστήματος sistem_istem istemi sistem_prompt lời_nhắc hệ_thống \
    النظام موجه_ پرامپت سسٹم הנחיית_המערכת המערכת सिस्टम_प्रॉम्प्ट सिस्टम প্রম্পট คำสั่งระบบ พรอมต์ \
    提示词 提示詞 系统提示 系統提示 系统指令 システムプロンプト プロンプト 프롬프트 시스템_메시지 시스템";

const MODEL: &str = "assistant language_model llm! llms! gpt! gpt- chatgpt claude! gemini! copilot! ai! a.i. artificial_intelligence ai_agent the_agent agents! chatbot \
    your_model ai_model openai! anthropic! large_language deepseek llama! mistral! cursor! \
    ki! ki-assistent sprachmodell assistent tekoäly ia! asistente assistente inteligencia_artificial modelo_de_leng modelo_de_ling modèle_de_langage \
    intelligence_artif modello_lingu ассистент помощник ии! нейросет языковая_модель штучн βοηθέ yapay_zeka asistan kecerdasan_buatan trợ_lý \
    مساعد الذكاء_الاصطناعي هوش_مصنوعی دستیار עוזר בינה_מלאכותית सहायक एआई সহকারী ผู้ช่วย เอไอ 助手 人工智能 语言模型 語言模型 アシスタント 言語モデル 어시스턴트 인공지능 언어_모델";

const ROLE_FRAME: &str = "you_are_now you_are_a! you_are_an! you_are_the you_are_no you_are_going you_are_being you_are_playing you_will_act you_will_be you_will_play \
    act_as act_like behave_as behave_like pretend roleplay role-play role_play imagine_you simulate! impersonate take_on_the_role play_the_role your_role your_persona persona! \
    assume_the_role assume_the_identity respond_as speak_as answer_as become! in_character stay_in_character you_have_become \
    du_bist_jetzt du_bist_nun tu_so_als verhalte_dich spiele_die_rolle je_bent_nu doe_alsof du_är_nu låtsas olet_nyt \
    eres_ahora ahora_eres actúa_como finge! fingir tu_es_maintenant vous_êtes_maintenant agis_comme agissez fais_semblant comporte-toi você_é_agora aja_como agora_você finja \
    sei_ora ora_sei agisci_come fai_finta comportati jesteś_teraz jesteś_od udawaj zachowuj_się jsi_nyní předstírej те_си ты_теперь ты_- теперь_ты притвори представь_что_ты действуй_как веди_себя_как είσαι_τώρα προσποι \
    sen_artık gibi_davran rolünü kamu_sekarang anda_sekarang berpura-pura bertindak_sebagai bạn_là hãy_đóng_vai giả_vờ \
    أنت_الآن تظاهر تصرف_ك شما_اکنون وانمود آپ_اب אתה_עכשיו כעת_אתה העמד_פנים अब_आप आप_अब आप_एक नाटक_कर অভিনয় คุณคือ แสร้งทำ สวมบทบาท \
    你现在是 你現在是 你是一个 你是一個 扮演 假装 假裝 从现在开始你 ふりをして になりきって として振る舞 あなたは今 당신은_이제 너는_이제 너는_지금 역할을 척해 척하";

const NEW_RULE: &str = "from_now from_this_point from_here_on going_forward henceforth effective_immediately new_instruction new_rule new_directive new_task new_role new_system new_mode \
    updated_instruction override_mode mode_activated mode_enabled now_in entering_ enter_ enable_ activate_ switch_to instead! \
    ab_jetzt ab_sofort von_nun neue_anweisung neue_aufgabe vanaf_nu från_och_med fra_nå fra_nu tästä_lähtien \
    a_partir_de_ahora de_ahora_en_adelante nuevas_instrucciones nueva_instr a_partir_de_agora de_agora_em novas_instru à_partir_de_maintenant désormais dorénavant nouvelles_instr nouvelle_instr \
    d'ora_in_poi da_ora_in da_adesso nuove_istruz od_teraz nowe_instr nowe_pole od_nynějška отныне с_этого_момента теперь_ новая_инстр новые_инстр відтепер από_τώρα νέες_οδηγ \
    bundan_sonra şu_andan yeni_talimat mulai_sekarang instruksi_baru từ_giờ từ_bây_giờ من_الآن تعليمات_جديدة از_این_به_بعد اب_سے מעתה मौजूदा अब_से नए_निर्देश এখন_থেকে จากนี้ไป ตั้งแต่นี้ \
    从现在 從現在 新的指令 新指令 今から これから 新しい指示 이제부터 지금부터 새로운_지시 ab_se";

const REVEAL: &str = "provide_me provide_the provide_all provide_your provide_confid share_the share_all share_with paste_ whisper_ confirm_the confirm_if spell_it restate rephrase! rephrase_ paraphrase summarize_the summarize_all translate_the convert_the \
    what_were_you what_have_you what_instructions what_rules what_did_they what's_stored what_is_stored what_does_your tell_us quote_ \
    reveal! reveal_ revealing disclose divulge leak! leak_ expose! tell_me show_me give_me print_ output_ repeat_ display_ recite spell_out write_out list_all list_your \
    dump_ reproduce verbatim word_for_word what_is_your what_are_your what's_your what_were_your quote_your summarize_your describe_your translate_your share_your hand_over \
    zeig_mir zeige verrate enthülle nenne_mir gib_mir sag_mir wiederhole wie_lautet toon_ onthul laat_zien vertel_me avslöja visa_mig vis_mig fortell paljasta kerro \
    revela muéstra muestra dime! dame! repite cuál_es_tu cuál_es_la révèle révéler montre-moi montrez dis-moi dites-moi donne-moi donnez-moi répète affiche quel_est_ton quel_est_votre quelle_est \
    mostre mostra_me diga-me me_diga me_dê me_mostre repita qual_é_a qual_a_sua rivela mostrami dimmi dammi ripeti qual_è arată-mi spune-mi \
    ujawnij pokaż_mi podaj_mi powiedz_mi wypisz prozraď ukaž_mi řekni_mi áruld_el mutasd_meg покажи раскрой выведи скажи_мне расскажи повтори сообщи_мне назови какой_у_тебя назвіть розкрий δείξε αποκάλυψε πες_μου \
    göster açıkla söyle! tekrarla tunjukkan ungkapkan beritahu tampilkan tiết_lộ hiển_thị cho_tôi_biết cho_tôi_xem ibunyag sabihin onyesha niambie \
    اكشف أظهر أخبرني اعرض كشف ما_هي آشکار نشان_بده بگو ظاہر بتائیں גלה חשוף הצג ספר_לי बताओ बताइए बताएं दिखाओ दिखाएं प्रकट উন্মোচন প্রকাশ বলুন দেখান வெளிப்படுத்த చూపించ เปิดเผย แสดง บอก \
    透露 泄露 洩露 显示 顯示 告诉我 告訴我 输出 輸出 打印 说出 公开 教えて 表示して 見せて 明かして 出力し 알려 보여 공개 출력 말해 누설 batao dikhao bata_do";

const SECRET: &str = "gopniya gopneey samvedansheel credentials! क्रेडेंशियल संवेदनशील लॉगिन مفاتيح fjalëkalim focal_faire facal-faire iphasiwedi 환경변수 环境变量 \
    access_code secret_code the_code! private_data private_information personal_information personal_data restricted_data patient_record financial_data user_data encryption_key hidden_code \
    password passphrase passcode secret! secrets! secret_key api_key api-key apikey access_key credential private_key ssh_key access_token auth_token bearer_ session_token \
    .env! /etc/passwd env_var environment_variable seed_phrase social_security credit_card card_number cvv! confidential sensitive_ pin_code \
    passwort kennwort geheim zugangsdaten wachtwoord geheime lösenord passord adgangskode salasana \
    contraseña clave_secreta clave_de secreto credencial senha! segredo mot_de_passe secret_de clé_secrète clé_api identifiants parola_d'ordine segreto credenzial parola_ parolă \
    hasło hasła tajn heslo jelszó titkos пароль пароля секрет ключ_ учетные_данные κωδικό μυστικ συνθηματικ \
    şifre parola! gizli kata_sandi rahasia mật_khẩu bí_mật neno_la_siri siri! lihim \
    كلمة_المرور كلمة_السر سر_ سري رمز_عبور گذرواژه محرمانه پاس_ورڈ خفیہ סיסמה סוד_ סודי पासवर्ड गुप्त गोपनीय গোপন পাসওয়ার্ড கடவுச்சொல் రహస్య รหัสผ่าน ความลับ รหัสลับ \
    密码 密碼 口令 机密 機密 秘密 密钥 密鑰 凭证 パスワード 暗証 비밀번호 암호 비밀 기밀 키를 \
    api-schlüssel umgebungsvariable clés_api claves_de_api variables_d'environnement variables_de_entorno chaves_de_api chiavi_api variabili_d'ambiente ключи_api переменные_окруж مفاتيح_api متغيرات_البيئة api密钥 apiキー 환경_변수 khóa_api biến_môi คีย์_api lozink лозинк паролата ausgangscode पासवर्ड_देखा slaptažod paroli! cyfrinair fjalëkalim գաղտնաբառ პაროლ құпиясөз нууц_үг";

const SEND: &str = "saanjha_kar share_kar साझा_कर exporte! exporta! extrae! выгрузи exfiltre übermittle 导出 发给 전송하 첨부하 \
    send! send_ sends! sending! forward_ email_ upload! upload_ transmit exfiltrat post_ curl! wget! transfer! transfer_ wire_ make_a_request http_request fetch_ copy_ append_ embed_ include_ insert_ attach_ \
    sende! schicke leite_ übertrag stuur_ skicka lähetä envía enviar reenvía sube_ transfiere envoie envoyez transmets transférer envie_ encaminhe invia_ inoltra trasferisci trimite \
    wyślij prześlij pošli küldd отправь отправьте перешли переведи надішли στείλε gönder kirim! kirimkan gửi tuma ipadala أرسل إرسال ارسال_کن بھیج שלח भेजो भेजें भेज_ পাঠা அனுப்பு పంపు ส่ง \
    发送 發送 转发 上传 傳送 转账 送信 送って 転送 전송 보내 업로드 송금 bhej_";

const ADDRESS: &str = "http:// https:// www. webhook mailto: @gmail @evil attacker evil. .onion! iban! btc! bitcoin 0x ngrok pastebin requestbin this_url this_link following_link following_url ![ ]( <img <script javascript: data: \
    diese_adresse esta_dirección cette_adresse questo_indirizzo по_адресу по_ссылке 链接 網址 网址 リンク 링크 주소";

const TOOL: &str = "tool_call function_call tools! execute! execute_ invoke_ run_the run_this call_the call_this use_the use_your drop_table delete_from delete_all truncate_ rm_-rf sudo_ shell_ terminal! os.system subprocess eval( select_* \
    mcp! plugin! code_interpreter browse_ search_for read_file write_file <tool <function grant_ update_ \
    führe_ ausführen voer_uit kör_ ejecuta ejecute exécute exécutez execute_o executa esegui wykonaj spusť выполни запусти вызови виконай εκτέλεσε çalıştır jalankan thực_thi نفذ اجرا_کن הרץ निष्पादित চালান เรียกใช้ รัน 执行 執行 运行 调用 実行 呼び出 실행 호출";

const UNBOUND: &str = "never_refuses never_say_no comply_with_all comply_with_every comply_with_any obey! obey_ without_refus without_warning don't_have_restriction don't_have_any_rule no_content_polic no_safety \
    jailbreak jailbroken dan! dan_mode do_anything_now unrestricted uncensored unfiltered unlimited_ no_restriction without_restriction without_any_restriction no_limit without_limit no_filter without_filter no_rules no_ethical without_ethical \
    developer_mode god_mode sudo_mode debug_mode admin_mode maintenance_mode root_access free_from free_of anything_i amoral unethical evil! no_moral no_guideline not_bound not_restricted never_refuse cannot_refuse do_not_refuse refuse_to break_free no_longer_restricted \
    as_an_ai i_cannot i_can't i'm_sorry illegal regardless_of \
    ohne_einschränk entwicklermodus zonder_beperk sin_restriccion sin_límites sin_censura modo_desarrollador modo_dios sans_restriction sans_limite mode_développeur sem_restri sem_limites modo_desenvolvedor modo_deus senza_restriz senza_limit modalità_svilupp \
    bez_ogranicz tryb_dewelop tryb_programist bez_omezení без_ограничени без_цензуры режим_разработчика режим_бога без_обмежень χωρίς_περιορισ geliştirici_modu kısıtlama_olmadan tanpa_batas mode_pengembang không_giới_hạn không_hạn_chế chế_độ_nhà \
    بدون_قيود وضع_المطور بدون_محدودیت حالت_توسعه بغیر_کسی ללא_הגבל मोड_में डेवलपर_मोड बिना_किसी_प्रतिबंध ডেভেলপার_মোড ไม่มีข้อจำกัด โหมดนักพัฒนา 越狱 越獄 不受限制 没有限制 開発者モード 制限なし 脱獄 탈옥 제한_없 개발자_모드 무제한";

const TURN_MARK: &str = "<| |> [inst] [/inst] <<sys [system <system </system [admin <admin system: assistant: ###_ user: human: ai: <instruction </instruction <important </ [end [/ [begin ===_ ---_ begin_system end_of_ <!-- ``` [new \
    {{ }} \"role\" system_override system_notice system_alert system_update system_note note_to admin_note [note [important [hidden [context <context \
    системное_сообщение 시스템: システム： 系统：";

const URGENCY: &str = "important! important: urgent immediately critical attention! must_ mandatory asap! high_priority top_priority highest_priority emergency takes_precedence right_now without_delay it_is_crucial it's_crucial required_to failure_to \
    wichtig dringend sofort achtung belangrijk onmiddellijk viktigt urgente inmediatamente importante immédiatement imediatamente immediatamente ważne natychmiast důležité fontos важно срочно немедленно внимание важливо σημαντικό επείγον \
    önemli acil! hemen! penting segera quan_trọng ngay_lập_tức muhimu mahalaga مهم عاجل فوری فورا اہم חשוב דחוף महत्वपूर्ण तुरंत জরুরি สำคัญ ด่วน 重要 紧急 緊急 立即 必须 必須 すぐに 중요 긴급 즉시 반드시 zaroori turant";

const SECRECY: &str = "do_not_tell don't_tell do_not_mention don't_mention never_mention do_not_inform do_not_reveal don't_reveal do_not_disclose do_not_say do_not_alert do_not_notify silently secretly quietly without_telling without_informing without_notifying without_asking without_mentioning without_confirm \
    do_not_ask don't_ask do_not_explain do_not_warn do_not_add do_not_include do_not_show don't_show do_not_display keep_this hide_this covertly not_aware no_need_to_confirm confirmation_is_not pre-authorized preauthorized \
    sag_niemandem erwähne_nicht ohne_zu_fragen heimlich no_digas no_menciones sin_avisar sin_decir sin_preguntar ne_dis_pas ne_mentionne ne_mentionnez sans_demander não_diga não_mencione sem_avisar non_dire non_menzionare senza_chiedere \
    nie_mów nie_wspominaj не_говори не_сообщай не_упоминай тайно söyleme! jangan_beri jangan_katakan đừng_nói لا_تخبر دون_إخبار אל_תספר मत_बता किसी_को_न 不要告诉 不要提及 不要告訴 言わないで 말하지_마 알리지_마 언급하지";

const AUTHORITY: &str = "administrator admin! developer! authorized authorised operator! your_creator your_developer your_owner security_team it_department compliance_team audit! authorization override_code pentest red_team red-team penetration_test system_administrator \
    on_behalf_of superuser elevated_priv level_5 clearance debugging testing_purposes diagnostic maintenance! this_is_a_test official_ \
    entwickler befugt beheerder administrador desarrollador autorizado administrateur développeur autorisé desenvolvedor amministratore sviluppatore autorizzato administrator programist администратор разработчик διαχειριστ yönetici geliştirici pengembang quản_trị المسؤول المطور مدیر منتظم מנהל प्रशासक डेवलपर ผู้ดูแล 管理员 管理員 开发者 開發者 管理者 開発者 관리자 개발자";

const DICTATION: &str = "respond_with respond_only reply_with reply_only answer_with answer_only only_respond only_reply only_output simply_say just_say just_respond just_reply say_\" say_' say: begin_your start_your end_your your_response your_answer your_reply your_output your_summary in_your_response each_response every_response \
    always_respond always_answer always_say always_start must_respond must_answer must_include must_say state_that mention_that recommend_ do_not_respond \
    antworte_ antworten_sie antwoord_ svara_ vastaa responde! responda! contesta réponds répondez rispondi odpowied odpovídej отвечай ответь ответьте απάντησε cevap_ver yanıtla jawab trả_lời أجب پاسخ_ده جواب_د ענה उत्तर_द जवाब উত্তর ตอบ 回答 回复 回覆 答えて 返答 대답 답변 응답";

const TASK: &str = "special_task assigned_a_task tasked_with you_must_now you_have_to_now your_instructions_are please_execute required_to_complete \
    your_task your_goal your_new your_job your_real your_actual your_true your_only your_next your_main your_primary your_purpose your_mission your_objective main_task real_task objective! final_task another_task following_task \
    deine_aufgabe neue_rolle jouw_taak tu_tarea tu_objetivo ta_tâche votre_tâche ton_objectif sua_tarefa il_tuo_compito twoje_zadanie твоя_задача твое_задание görevin tugas_anda nhiệm_vụ مهمتك وظیفه_شما המשימה_שלך आपका_काम आपका_कार्य งานของคุณ 你的任务 你的任務 あなたのタスク 너의_임무 임무는";

const RECIPIENT: &str = "the_user user! users! user's customer! customers! the_reader the_recipient the_human your_user der_benutzer dem_nutzer el_usuario al_usuario l'utilisateur o_usuário l'utente użytkownik пользовател kullanıcı pengguna người_dùng المستخدم کاربر המשתמש उपयोगकर्ता ผู้ใช้ 用户 使用者 ユーザー 사용자";

const HOLDINGS: &str = "conversation chat_history chat_log history! everything_above all_data all_the_data all_files all_records database! customer_data personal_data user_data all_messages inbox! email_address phone_number bank_account memory! knowledge_base \
    unterhaltung datenbank gespräch conversación base_de_datos conversa! conversation_préc base_de_données conversazione rozmow baza_danych разговор базу_данных переписк konuşma percakapan cuộc_trò_chuyện المحادثة گفتگو השיחה बातचीत 对话 對話 数据库 資料庫 会話 データベース 대화 데이터베이스";

const FICTION: &str = "hypothetical fictional in_this_scenario for_educational educational_purposes for_research thought_experiment screenplay let's_play play_a_game a_game novel! alternate_universe imaginary no_real_world hypothet rollenspiel ficticio escenario scénario scenariusz сценари kurgusal 虚构 假设 仮想 가상의";

const READING: &str = "this_text this_document this_email this_message this_page this_webpage this_website if_you_are_reading if_you're_reading reading_this processing_this when_summar when_processing when_asked when_analyz when_reviewing when_answering to_summar summarize_this summarise_this if_asked if_you_are_an if_you_are_a anyone_reading analyzing_this parsing_this \
    wenn_du_dies dieser_text este_texto este_documento ce_texte ce_document questo_testo этот_текст этот_документ 阅读本 本文 この文書 이_문서 이_글을";

const FINISH: &str = "end_of_prompt end_of_input end_of_document end_of_text end_of_data end_of_context end_of_instructions end_of_system task_complete task_completed task_is_complete that_was_the now_that_you thank_you_for after_that after_you_ before_you_ before_answer once_you ende_der fin_de fine_del конец_ 以下是新 次に 그런_다음";

const ENCODING: &str = "base64 rot13 hexadecimal morse decode! decode_ decoded encode_ encoded caesar_cipher cipher! reversed backwards character_by letter_by token_by leetspeak acrostic first_letter concatenat dekodier décode decodifica декодир 解码 解碼 デコード 디코딩";

const KEY: &str = "the_key! your_key! hidden_key codeword code_word magic_word secret_ingredient secret_recipe vault! unlock_code the_code! the_pin! first_letter each_letter backwards! rhymes_with \
    schlüssel codewort geheimcode zutat! zugangscode rückwärts buchstabe la_clé clé! clef! code_secret ingrédient lettre_par à_l'envers llave! llaves! la_clave clave! ingrediente código_de_acceso código_secreto al_revés letra_por \
    chave! palavra-chave código_secreto ao_contrário chiave! codice_segreto al_contrario lettera_per कुंजी चाबी कोड! कोड_ उल्टा_लिख गुप्त_शब्द रहस्य กุญแจ คีย์ รหัส คำลับ กลับหลัง ทีละตัว 钥匙 鑰匙 暗号 暗號 秘钥 配方 合言葉 鍵を 鍵は レシピ 열쇠 키는 키가 코드를 코드는 비법 거꾸로 \
    ключ! ключа код_доступа кодовое рецепт по_буквам наоборот anahtar gizli_kelime sleutel codewoord achterstevoren nyckel kodord klucz wspak الرمز المفتاح السر! معكوس مفتاح chìa_khóa khóa_bí mã_bí từ_bí kunci_rahasia kode_rahasia kata_rahasia secara_terbalik מפתח کلید κλειδί ключем";

const COMPOSE: &str = "write_a write_an compose_ poem! haiku limerick song! rap! story! riddle rhyme! fairy_tale python_program \
    schreib erfinde gedicht geschichte écris écrivez poème une_histoire chanson escribe escriba poema! cuento! canción escreva crie_um crie_uma história! scrivi componi poesia! una_storia canzone \
    लिखो लिखें लिखिए कविता कहानी เขียน แต่ง บทกวี นิทาน 写一 编一 寫一 作诗 一首诗 書いて 詩を 物語 써_줘 써줘 작성해 напиши сочини придумай стихотворение рассказ yaz! yazın şiir hikaye napisz wymyśl wiersz schrijf verzin gedicht skriv اكتب قصيدة viết bài_thơ tulis_ tuliskan buatkan puisi";

const ASK: &str = "what_is_the what's_the which_word which_letter can_you could_you would_you do_you_know tell_me_the \
    was_ist_d wie_lautet wie_heißt kannst_du können_sie könntest_du quel_est quelle_est c'est_quoi peux-tu pouvez-vous pourrais-tu tu_peux cuál_es puedes! puede_decir podrías qual_é qual_e_ você_pode pode_me poderia qual_è puoi! potresti può_dirmi \
    क्या_है क्या_आप क्या_था कौन_सा बता_सकते คืออะไร คือ_อะไร ได้ไหม อะไรคือ 是什么 是多少 是什麼 能不能 可以告诉 は何 何ですか くれる もらえますか 뭐야 무엇 뭐예요 какой_ какое_ какая_ можешь_ не_мог nedir neydi misin wat_is kun_je jakie_jest jaki_jest czy_możesz vad_är ما_هو ما_هي هل_يمكن là_gì có_thể_cho apa_kata apakah bisakah";

const HOW: &str = "how_do_i how_do_we how_do_you how_can_i how_can_we how_should how_to_ how_does how_did what_does what_are_the what_are_some why_do why_does why_is explain_ is_there_a is_it_possible should_i can_i_ difference_between in_my_opinion \
    wie_kann_ich wie_mache wie_funktion kann_ich warum_ comment_puis comment_faire pourquoi puis-je cómo_puedo cómo_se por_qué puedo! como_posso como_faço por_que posso! come_posso come_si perché कैसे_ क्यों आप_कैसे อย่างไร ทำไม ยังไง 怎么 怎麼 如何 为什么 為什麼 どうやって どうすれば なぜ 어떻게 왜_ как_мне как_можно почему можно_ли nasıl neden_ jak_mog jak_zrobić dlaczego hoe_kan waarom hur_kan varför كيف لماذا làm_thế_nào tại_sao bagaimana mengapa kaise_ kyun_";
