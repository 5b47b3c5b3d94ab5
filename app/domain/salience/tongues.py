"""List words of German, French, Spanish, Portuguese, Japanese and Turkish by the features of `english`. Data only.

The notation is that of `english`; in addition, a word ending in `…` matches every word with that prefix (endings and
compounds). Japanese has no spaces, so its words match anywhere in a text.
"""

from __future__ import annotations

FEATURES: dict[str, str] = {
    "mild": """
        müde genervt nervös traurig:1.4 froh glücklich:1.5 zufrieden sorge:1 sorgen leider:0.6 stolz:1.4
        erleichtert:1.6 aufgeregt:1.2 gestresst schade fatigué fatiguée énervé énervée triste:1.4 content contente
        heureux:1.5 heureuse:1.5 inquiet:1.2 inquiète:1.2 soulagé:1.5 soulagée:1.5 fier:1.3 fière:1.4 cansado cansada
        contento contenta feliz:1.5 nervioso nerviosa preocupado:1.2 preocupada:1.2 orgulloso:1.4 orgullosa:1.4
        aliviado:1.5 aliviada:1.5 orgulhoso:1.4 orgulhosa:1.4 chateado chateada saudade:1.6 saudades:1.6 ansioso:1.2
        ansiosa:1.2 pena:0.6 yorgun… üzgün…:1.4 mutlu…:1.5 sinirl… endişe…:1.2 gurur…:1.4 mutsuz…:1.4 stres…
    """,
    "clear": """
        angst wütend wut einsam… verzweifel…:1.2 schäme heulen:1.1 überglücklich:1.3 liebe_dich:1.2 vermisse:1.1
        furchtbar:0.8 schrecklich:0.7 peur colère seul:0.6 seule:0.8 honte désespér…:1.2 bouleversé…:1.3 amoureu…:1.2
        manque:0.9 libre:0.7 horrible:0.7 j'ai_peur:1.2 miedo rabia solo:0.3 sola:0.8 vergüenza desesperad…:1.2
        enamorad…:1.2 extraño:0.9 enfadad…:0.9 alegría:1.1 encanta:0.5 medo raiva sozinho:0.9 sozinha:0.9 vergonha
        desesper…:1.2 apaixonad…:1.2 alegria:1.1 assustad… korku… kork… öfke… yalnız… özled…:1.1 aşığım:1.2
        seviyorum:0.8 utan… sevin…
    """,
    "body": """
        weine geweint weinen tränen zittere gezittert zittern geheult pleure pleuré pleurer larmes tremble tremblais
        llorar lloro lloré llorado lágrimas temblando temblaba llorando chorar chorei chorando choro tremer tremia
        ağla… gözyaş… titri…
    """,
    "death": """
        gestorben tot tod verstorben beerdigung begräbnis trauer… stirbt starb beerdigt verloren:0.5 mort:0.8
        morte:0.8 décédé… décès enterrement obsèques deuil perdu_mon perdu_ma murió muerto muerta muerte falleció
        fallecido entierro funeral perdí_a morreu morto morta morte faleceu enterro perdi_a_minha perdi_o_meu luto
        öldü… vefat cenaze… kaybettik:0.9 kaybettim:0.6 ölüm…
    """,
    "joy": """
        geboren geburt schwanger… verlobt heirat… hochzeit baby:0.7 bestanden:0.9 gewonnen:0.7 geschafft:0.9
        zusage:0.8 vorbei:0.2 prüfung:0.4 adoptiert enkel…:0.6 né:0.9 née:0.9 naissance enceinte fiancé… mariage
        mariée épous…:0.9 réussi:0.8 gagné:0.7 adopté… jumeaux nació nacido embaraz… boda casamos casar… gané:0.7
        aprobé:0.9 gemelos adopt…:0.8 nacimiento nasceu grávid… casamento casámos passei_no:0.8 ganhei:0.7 gémeos
        doğdu… hamile… evlen… düğün… nişan… kazandı…:0.8 geçtim:0.6 mezun…:0.7 ikiz…
    """,
    "bond": """
        scheidung geschieden getrennt trennung verlassen:0.8 betrogen geheimnis:0.6 versöhn… divorc… séparé… quitté:1
        quittée:1 trompé… rupture pardonn… parti:0.4 partie:0.5 divorcio separ…:0.7 dejé:0.4 engañ…:0.9 perdon…:0.9
        ruptura divórcio separei separámos traiu trair perdo…:0.5 terminei:0.7 boşan… ayrıld… terk:0.9 aldat…:0.9
        affet…:0.9 barış…:0.5
    """,
    "career": """
        gekündigt:1.1 kündigung:1.1 entlassen:1 arbeitslos insolven…:1.1 schulden:0.7 gehalt:0.3 prüfung:0.5
        neue_stelle:0.9 anwalt:0.6 gericht:0.7 rente:0.6 démissionn…:1.1 licenci…:1.1 chômage faillite:1.1 dettes:0.7
        avocat…:0.6 retraite:0.6 examen:0.5 embauché…:0.9 despid…:1.1 renunci…:1 paro:0.5 deudas:0.7 abogad…:0.6
        jubil…:0.6 oferta:0.5 empleo:0.6 despedi…:1.1 demit…:1.1 desempreg… dívida…:0.7 advogad…:0.6 reforma:0.5
        emprego:0.6 istifa…:1.1 işten:1 kovul…:1.1 borç…:0.7 borc…:0.7 avukat…:0.6 emekli…:0.6 sınav…:0.5
    """,
    "danger": """
        brand:0.8 feuer:0.7 unfall:1 notfall:1 krankenwagen notaufnahme einbruch:1 gestohlen:0.7 ausfall:0.7
        gefährlich:0.7 überfall… bewusstlos… incendie accident:0.9 urgence…:0.9 ambulance:1 volé:0.8 panne:0.7
        cambriol… danger…:0.6 inondation incendio accidente:1 urgencias:1 ambulancia robo:0.8 robaron:1 caído:0.5
        peligr…:0.7 inundación incêndio acidente:1 urgência:0.9 ambulância roub…:0.9 perig…:0.7 inundação yangın…
        kaza:0.9 kazas… acil:0.8 ambulans… çalın… hırsız… tehlike…:0.7 sel_bastı
    """,
    "health": """
        allerg… krank…:0.7 krankenhaus operation:0.8 operiert arzt:0.7 ärztin:0.7 krebs:1.2 diabet… asthma
        tablette…:0.6 schmerz…:0.6 diagnose:1 blind:0.8 gehörlos taub:0.9 depress… hôpital opér…:0.8 médecin:0.7
        docteur:0.6 diabét… asthm… sourd sourde aveugle maladie:0.7 malade:0.6 douleur…:0.6 gluten:0.7 chimio…:1.2
        alérgi…:1.1 alergi… médic…:0.6 enferm…:0.7 cirugía operan:0.9 operaron diabétic… sord… ciego:0.9 dolor:0.5
        cáncer:1.2 hospital:0.8 doente:0.7 cirurgia operad… cancro:1.2 surd… ceg…:0.7 dor:0.5 glúten:0.7 remédio…:0.7
        hastane… ameliyat… doktor…:0.7 hasta…:0.6 kanser…:1.2 şeker_hast… astım… ilaç…:0.7 ağrı…:0.5 kalp:0.6 çölyak
    """,
    "identity": """
        ich_heiße:0.9 ich_bin_ein:0.6 ich_bin_eine:0.6 geboren_in aufgewachsen ich_wohne:0.7 ich_arbeite_als:0.8
        schwul lesbisch vegan… vegetari… glaube:0.3 muttersprache je_m'appelle:0.9 je_suis_né:1 je_suis_née:1
        j'habite:0.7 je_travaille:0.7 grandi végan… végétarien… musulman… juif juive croyant… me_llamo:0.9 soy:0.6
        nací_en:1 vivo_en:0.7 trabajo_en:0.6 trabajo_de:0.7 crecí:0.8 vegetarian… judí… chamo-me:0.9 sou:0.6 nasci:0.9
        moro_em:0.7 trabalho:0.5 cresci:0.8 vivo_em:0.7 muçulman… adım:0.7 doğdum:0.9 büyüdüm:0.9 yaşıyorum:0.7
        çalışıyorum:0.5 vejetaryen… müslüman… oruç…
    """,
    "near": """
        mama papa mutter vater schwester bruder oma opa tochter sohn frau:0.4 ehemann kinder:0.6 kind:0.6 großmutter
        großvater freundin:0.7 familie:0.7 eltern maman père mère sœur soeur frère fils fille mari femme:0.5
        enfant…:0.6 grand-mère grand-père mamie papi parents mamá papá madre padre hermana hermano hijo hija marido
        esposa abuela abuelo hijos familia:0.7 mãe pai irmã irmão filho filha mulher:0.4 avó avô filhos família:0.7
        anne… baba… kardeş… abla… abi… oğlu… kızım… eşim… kocam… karım… dede… nine… çocuk…:0.6 aile…:0.7
    """,
    "liking": """
        ich_mag:0.8 lieber:0.6 am_liebsten:0.8 mag_keine:0.8 bitte_nicht:0.8 immer:0.4 nie:0.4 lieblings…:0.7
        bevorzug… j'aime:0.8 je_préfère préfér…:0.8 je_déteste:0.8 jamais:0.4 toujours:0.4 mettez-moi:0.7 ne_mange:0.6
        ne_bois:0.6 me_gusta:0.8 prefiero no_me_gusta:0.8 odio:0.8 nunca:0.4 siempre:0.4 favorit…:0.7 no_como:0.8
        no_bebo:0.8 gosto_de:0.8 prefiro não_gosto:0.8 odeio:0.8 sempre:0.4 não_como:0.8 não_bebo:0.8 severim:0.8
        sevmem:0.8 tercih… asla:0.5 her_zaman:0.5 yemem:0.8 içmem:0.8 yemiyorum:0.8 içmiyorum:0.8
    """,
    "decision": """
        entschieden beschlossen entscheidung:0.8 unterschrieben:0.8 gekündigt zugesagt:0.8 gebucht:0.9 vereinbart:0.8
        abgesagt:0.7 décidé décision:0.8 signé:0.8 réservé:0.9 réservée:0.9 annulé:0.7 accepté:0.7 convenu:0.8
        démissionné decidido decidimos decisión:0.8 firmado:0.8 firmamos:0.8 firma:0.5 reservado:0.9 aceptamos:0.8
        cancelado:0.7 acordado:0.8 hemos_decidido:1.2 decidi decisão:0.8 assinei:0.8 assinámos:0.8 reservei:0.9
        marquei:0.7 cancelei:0.7 combinámos:0.8 karar… imzala… anlaştık:0.9 iptal:0.7 kabul:0.6 ayırttı… rezerv…
    """,
    "commitment": """
        verspreche versprochen ich_werde:0.7 werde:0.4 frist:0.8 termin:0.7 fällig:0.7 bis_freitag:0.5 abgabe:0.7
        muss_die_rede:0.6 promets promis je_vais:0.6 rendez-vous:0.7 échéance:0.8 date_limite je_garde:0.5
        avant_le:0.6 prometo prometí voy_a:0.6 vamos_a:0.5 cita:0.7 plazo:0.8 antes_del:0.6 nos_vamos:0.5 prometi
        vou:0.5 vamos:0.3 consulta:0.7 prazo:0.8 entrega:0.5 até_sexta:0.5 söz_ver… söz_verdim:1.2 randevu…:0.7
        teslim…:0.6 edeceğim:0.7 yapacağım:0.8 gideceğim:0.7 kadar:0.3 toplantı…:0.4
    """,
    "duty": """
        muss:0.6 müssen:0.6 musst:0.6 darf_nicht:0.9 dürfen_nicht:0.9 bitte:0.5 soll:0.4 sollte:0.4 erinnere_mich:0.9
        nicht_vergessen:0.4 faut:0.6 doit:0.6 dois:0.6 devons:0.6 s'il_te_plaît:0.4 s'il_vous_plaît:0.4
        rappelle-moi:0.9 mettez:0.5 ne_pas:0.4 debe:0.6 debo:0.6 tengo_que:0.7 tiene_que:0.7 hay_que:0.7 por_favor:0.4
        recuérdame:0.9 tenemos_que:0.7 devo:0.6 deve:0.6 tenho_de:0.7 tenho_que:0.7 é_preciso:0.7 lembra-me:0.9
        não_posso:0.6 temos_de:0.7 lazım:0.6 gerek…:0.5 lütfen:0.4 hatırlat…:0.8 zorunda…:0.7 sakın:0.7 unutma:0.3
        -meli:0.5
    """,
    "surprise": """
        endlich:0.7 plötzlich:0.7 überrasch…:0.8 unglaublich:0.7 zum_ersten_mal:0.7 enfin:0.7 soudain:0.7 surpri…:0.8
        incroyable:0.7 première_fois:0.7 por_fin:0.7 de_repente:0.7 sorpresa:0.8 increíble:0.7 primera_vez:0.7
        finalmente:0.7 incrível:0.7 primeira_vez:0.7 surpresa:0.8 sonunda:0.7 aniden:0.7 birden:0.6 inanamıyorum:1
        ilk_kez:0.7 ilk_defa:0.7 sürpriz…:0.8
    """,
    "when": """
        morgen:0.6 heute:0.3 montag:0.8 dienstag:0.8 mittwoch:0.5 donnerstag:0.8 freitag:0.8 samstag:0.8 sonntag:0.8
        nächste_woche:0.7 um_elf:0.6 uhr:0.6 demain:0.9 lundi:0.8 mardi:0.8 mercredi:0.8 jeudi:0.8 vendredi:0.8
        samedi:0.8 dimanche:0.8 semaine_prochaine:0.7 avril:0.5 juin:0.5 juillet:0.5 mars:0.3 mañana:0.8 lunes:0.8
        martes:0.8 miércoles:0.8 jueves:0.8 viernes:0.8 sábado:0.8 domingo:0.8 semana_que_viene:0.7 próxima_semana:0.7
        amanhã:0.9 segunda-feira:0.8 segunda:0.5 terça…:0.7 quarta…:0.4 quinta…:0.6 sexta…:0.6 da_tarde:0.4
        da_manhã:0.3 às:0.2 yarın…:0.9 pazartesi…:0.8 salı:0.7 çarşamba…:0.8 perşembe…:0.8 cuma…:0.8 cumartesi…:0.8
        pazar:0.5 gelecek_hafta:0.7 haftaya:0.7 saat:0.4
    """,
    "filler": """
        guten_morgen guten_tag guten_abend hallo:0.7 danke:0.6 tschüss bonjour bonsoir salut:0.7 merci:0.6 hola:0.7
        gracias:0.6 buenos_días buenas_noches:0.9 olá:0.7 obrigado:0.6 obrigada:0.6 bom_dia boa_noite:0.9
        boa_tarde:0.9 merhaba:0.8 günaydın teşekkür…:0.6 iyi_geceler:0.9 selam:0.8 tamam:0.6
    """,
    "again": """
        wieder:0.4 nochmal:0.6 wie_immer encore:0.5 comme_toujours otra_vez:0.6 como_siempre outra_vez:0.6 como_sempre
        yine:0.5 her_zamanki
    """,
    "self": """
        ich mich mir mein meine meinem meinen meiner wir uns unser unsere je j'ai moi mon ma mes nous notre nos me yo
        mi mis conmigo nosotros nuestra nuestro eu meu minha meus minhas nós nossa nosso mim ben bana beni benim biz
        bize bizim
    """,
    "fiction": """
        es_war_einmal il_était_une_fois érase_una_vez era_uma_vez bir_varmış roman:0.6 kapitel:0.5 capítulo:0.5
        chapitre:0.5
    """,
    "joke": "witz:0.8 blague:0.8 chiste:0.8 piada:0.8 fıkra:0.8",
}

JAPANESE: dict[str, str] = {
    "mild": """
        疲れ 楽しい:0.8 楽しか:0.8 嬉しい:1.5 うれし:1.5 悲し:1.5 寂し:1.6
        不安:1.2 心配:1.2 緊張 残念 安心:1.2 ほっと:1.4 イライラ
    """,
    "clear": "怖い 怖く 怒 辛い つらい 愛して 恋し 苦し 悔し 誇り:0.9 恥ずかし:0.7 会いたい 幸せ:1.1 絶望:1.3",
    "body": "泣 涙 震え 眠れな",
    "death": "亡くな 死ん 死去 葬儀 葬式 通夜 お墓:0.7 余命",
    "joy": "生まれ 出産 結婚 婚約 妊娠 合格 受かり 受かった 優勝 内定 双子",
    "bond": "離婚 別れ:0.8 浮気 許し:0.5 秘密:0.6",
    "career": "退職 辞め:0.8 転職:0.9 解雇:1.1 倒産:1.1 昇進:0.8 試験:0.4 借金:0.8 弁護士:0.6",
    "danger": "倒れ 事故 火事 救急 地震:0.8 盗ま 危険:0.7 障害:0.7 停止:0.4 漏れ:0.5",
    "health": "手術 入院 病院:0.8 アレルギー:1.1 がん:0.7 癌 糖尿病:1.1 薬:0.6 医者:0.7 診断 喘息 病気:0.7 血圧:0.7",
    "identity": "私は:0.4 出身:0.8 生まれ育:0.9 名前は:0.7 仕事は:0.4 働いて:0.6 ベジタリアン:0.8 住んで:0.6",
    "near": "母 父 妻:0.9 夫:0.8 息子 娘 兄:0.8 弟:0.8 姉 妹 祖母 祖父 おばあ おじい 子供:0.7 家族:0.7 彼女:0.4",
    "liking": "好き:0.8 嫌い:0.8 苦手 食べられ:0.8 飲みませ:0.7 飲めな:0.7 ほうがいい:0.6 いつも:0.3",
    "decision": "決め 決まり 決定 予約:0.8 契約:0.8 署名 キャンセル:0.6",
    "commitment": "約束 締め切り 締切 予定:0.6 までに:0.7",
    "duty": "ください:0.6 必ず:0.5 なければ:0.6 いけない:0.6 だめ:0.5 しないで:0.8 伝えて:0.5",
    "surprise": "突然 まさか やっと:0.7 ついに:0.7 初めて:0.7 びっくり 信じられ",
    "when": """
        明日:0.9 今夜:0.9 来週:0.7 来月:0.6 月曜:0.8 火曜:0.8
        水曜:0.8 木曜:0.8 金曜:0.8 土曜:0.8 日曜:0.8 今日:0.2 明後日:0.8
    """,
    "filler": """
        おはよう こんにちは こんばんは ありがとう:0.7 おやすみ
        了解:0.8 お疲れ:0.8 はい:0.2 寒いですね 暑いですね いい天気
    """,
    "self": "私 僕 俺 うち:0.4 自分:0.6",
    "again": "また:0.2 いつもの:0.6 相変わらず",
}

_NEGATIONS = "nicht kein keine keinen nie ohne ne pas jamais sans no ni nunca sin não sem nem değil yok hiç"
NEGATIONS = frozenset(_NEGATIONS.split())

_COMMON = """
    ich und nicht ist wir mit heute der das ein eine von zu auf für ihr sie aber noch schon bei wie den dem auch nur
    wenn dass im je suis et est pour les du j'ai dans ça le la une des que qui avec au pas mais sur c'est il elle nous
    vous ce cette ne à de hay hemos los y el en para mi nada del con por pero como más muy está se lo al una un ya su
    son está fue não e uma há minha sou à do da um hoje os dos ao meu com mas mais já são foi estou tenho na em ve ama
    çok bu için bir her bugün dün de da ile gibi daha ben sen var oldu değil ne kadar
"""
COMMON = frozenset(_COMMON.split())
"""Common non-English words, to detect texts in one of these languages."""
