PRAGMA application_id=1396787009;
BEGIN TRANSACTION;
CREATE TABLE saga (
	id VARCHAR NOT NULL, 
	realm VARCHAR NOT NULL, 
	caller VARCHAR NOT NULL, 
	conversation VARCHAR NOT NULL, 
	"key" VARCHAR NOT NULL, 
	purpose VARCHAR NOT NULL, 
	phase VARCHAR NOT NULL, 
	state VARCHAR NOT NULL, 
	driver VARCHAR NOT NULL, 
	busy BOOLEAN NOT NULL, 
	open BOOLEAN NOT NULL, 
	items INTEGER NOT NULL, 
	steps INTEGER NOT NULL, 
	seq INTEGER NOT NULL, 
	opened_at FLOAT NOT NULL, 
	updated_at FLOAT NOT NULL, 
	idle_from_s FLOAT, reverted_by VARCHAR DEFAULT '' NOT NULL, head BLOB, chained_from INTEGER DEFAULT '1' NOT NULL, ended_at FLOAT, wiped_at FLOAT, 
	PRIMARY KEY (id)
)
 WITHOUT ROWID

;
INSERT INTO "saga" VALUES('sg-holds','ops','ada','','','stay','active','active','own-1',0,1,0,1,3,11.5,15.5,0.0,'',X'27F647E5F0FC3CF42CE52E0DA8EB60A73BD24C6BAD87D84AE899BB4278018C68',1,NULL,NULL);
INSERT INTO "saga" VALUES('sg-over','ops','ada','','k','','committed','committed','own-1',0,0,0,0,2,17.5,19.5,NULL,'',X'C64DF12812F1D44FF41ADAA3200AEF87ABAB225ECA9BDF52AB7A518C71D83F11',1,19.5,NULL);
CREATE TABLE saga_event (
	saga_id VARCHAR NOT NULL, 
	seq INTEGER NOT NULL, 
	type VARCHAR NOT NULL, 
	version INTEGER NOT NULL, 
	at FLOAT NOT NULL, 
	batch_id VARCHAR NOT NULL, 
	facts TEXT NOT NULL, 
	payload TEXT, salt BLOB, sealed BLOB, key_id VARCHAR, committed BLOB, link BLOB, 
	PRIMARY KEY (saga_id, seq)
)
 WITHOUT ROWID

;
INSERT INTO "saga_event" VALUES('sg-holds',1,'SagaOpened',1,10.5,'afa225175c22b229.1','{"realm":"ops","driver":"own-1","on_error":"abort","on_undo_failure":"halt","caller":"ada","conversation":"","key":"","purpose":"stay","implicit":false,"reverts":""}',NULL,NULL,NULL,NULL,NULL,X'393C7C894B9A5955CFFB86F3DB5884CD4EB34D03B8ADEF8C28DEA774F4209F06');
INSERT INTO "saga_event" VALUES('sg-holds',2,'StepIntended',1,12.5,'afa225175c22b229.2','{"step":1,"owner":"me","seen":0,"received":[],"plan":{"tool":"t","kind":"compensable","pair_hash":"","target_id":"","host":"","idempotent":false,"has_probe":false,"safe_if_absent":false,"guarded":false,"outlives_us":false,"looks_after":false,"step_key":"","call_id":"","offered":"","secret":[]}}','{"plan":{"resource":"room 12","args_digest":"2afb9b83f9314e5d029766197f539792"}}',X'51CE7F9CDF9DE46774EECB9AB015216E',NULL,NULL,X'711A88A5800D1BF076DE4087F87348220E3864F3D7A6592EA0874171167E48F3',X'8BF3ABE98678DF8889B77995AB7C355D0AE8AE6BE288CAB7CDBF67671EC21917');
INSERT INTO "saga_event" VALUES('sg-holds',3,'StepSucceeded',1,14.5,'afa225175c22b229.3','{"step":1,"parts":[{"action":"call","tool":"travel.refund","entry":0,"idempotent":false,"has_probe":false,"outlives_us":false,"urgency":"normal","limits":null}]}','{"result":{"id":7},"parts":[{"args":{"charge":"ch-1"}}]}',X'531AC6CAF5191FBCDE38E5D11F5EDEC1',NULL,NULL,X'733DF9A75EF3A3AEF225B5A211C78D2E0D2DD8D16F07EC9CFCCFEA0A93B57A64',X'27F647E5F0FC3CF42CE52E0DA8EB60A73BD24C6BAD87D84AE899BB4278018C68');
INSERT INTO "saga_event" VALUES('sg-over',1,'SagaOpened',1,16.5,'afa225175c22b229.4','{"realm":"ops","driver":"own-1","on_error":"abort","on_undo_failure":"halt","caller":"ada","conversation":"","key":"k","purpose":"","implicit":false,"reverts":""}',NULL,NULL,NULL,NULL,NULL,X'54250B4F3D5E2122DA6A95B0C9F25D7203730F4A68BC283B590A84F350513E08');
INSERT INTO "saga_event" VALUES('sg-over',2,'SagaCommitted',1,18.5,'afa225175c22b229.5','{"by":"agent","accepted":[]}',NULL,NULL,NULL,NULL,NULL,X'C64DF12812F1D44FF41ADAA3200AEF87ABAB225ECA9BDF52AB7A518C71D83F11');
CREATE TABLE saga_hold (
	realm VARCHAR NOT NULL, 
	name VARCHAR NOT NULL, 
	saga_id VARCHAR NOT NULL, 
	PRIMARY KEY (realm, name)
)
 WITHOUT ROWID

;
INSERT INTO "saga_hold" VALUES('ops','ad157dc1146b202d8d2b15bc862358d783d1ac4253f82368d4811fc71fe75d7f','sg-holds');
CREATE TABLE saga_log_key (
	id VARCHAR NOT NULL, 
	PRIMARY KEY (id)
)
 WITHOUT ROWID

;
CREATE TABLE saga_log_meta (
	only_row INTEGER NOT NULL, 
	epoch INTEGER NOT NULL, pauses INTEGER DEFAULT 0 NOT NULL, hmac_key VARCHAR DEFAULT '' NOT NULL, 
	PRIMARY KEY (only_row)
);
INSERT INTO "saga_log_meta" VALUES(1,8,0,'710ac44335836da6d97d091b73142572f426d3d3b909014d3130bc8e1d830cf7');
CREATE TABLE saga_log_revision (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT saga_log_revision_pkc PRIMARY KEY (version_num)
);
INSERT INTO "saga_log_revision" VALUES('0008');
CREATE TABLE saga_outbox (
	saga_id VARCHAR NOT NULL, 
	seq INTEGER NOT NULL, 
	n INTEGER NOT NULL, 
	realm VARCHAR NOT NULL, 
	type VARCHAR NOT NULL, 
	subject VARCHAR NOT NULL, 
	at FLOAT NOT NULL, 
	data TEXT NOT NULL, 
	waits_from_s FLOAT NOT NULL, 
	owner VARCHAR NOT NULL, 
	attempts INTEGER NOT NULL, 
	due_at FLOAT, 
	parked BOOLEAN NOT NULL, 
	PRIMARY KEY (saga_id, seq, n)
)
 WITHOUT ROWID

;
CREATE TABLE saga_pair (
	hash VARCHAR NOT NULL, 
	content TEXT NOT NULL, 
	PRIMARY KEY (hash)
);
CREATE TABLE saga_pause (
	realm VARCHAR NOT NULL, 
	tool VARCHAR NOT NULL, 
	by_whom VARCHAR NOT NULL, 
	note VARCHAR NOT NULL, 
	at FLOAT NOT NULL, 
	PRIMARY KEY (realm, tool)
)
 WITHOUT ROWID

;
CREATE TABLE saga_realm (
	name VARCHAR NOT NULL, 
	observed_s FLOAT NOT NULL, 
	PRIMARY KEY (name)
)
 WITHOUT ROWID

;
CREATE TABLE saga_step_lock (
	realm VARCHAR NOT NULL, 
	name VARCHAR NOT NULL, 
	saga_id VARCHAR NOT NULL, 
	owner VARCHAR NOT NULL, 
	token VARCHAR NOT NULL, 
	PRIMARY KEY (realm, name)
)
 WITHOUT ROWID

;
INSERT INTO "saga_step_lock" VALUES('ops','aa878f23177878cc63c49cf8b2ae04271afe53848af3d5b333667d9dadab3e93','sg-holds','own-1','t1');
CREATE TABLE saga_tombstone (
	id VARCHAR NOT NULL, 
	realm VARCHAR NOT NULL, 
	caller VARCHAR NOT NULL, 
	phase VARCHAR NOT NULL, 
	summary VARCHAR NOT NULL, 
	seq INTEGER NOT NULL, 
	head BLOB, 
	ended_at FLOAT NOT NULL, 
	pruned_at FLOAT NOT NULL, 
	PRIMARY KEY (id)
)
 WITHOUT ROWID

;
CREATE INDEX saga_newest ON saga (realm, opened_at);
CREATE INDEX saga_open ON saga (realm, opened_at) WHERE open;
CREATE INDEX saga_busy ON saga (realm, opened_at) WHERE busy;
CREATE INDEX saga_waiting ON saga (realm, opened_at) WHERE items > 0;
CREATE INDEX saga_idle ON saga (realm, idle_from_s) WHERE idle_from_s IS NOT NULL;
CREATE UNIQUE INDEX saga_key ON saga (realm, caller, "key") WHERE key <> '';
CREATE INDEX saga_outbox_due ON saga_outbox (realm, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX saga_ended ON saga (realm, ended_at) WHERE ended_at IS NOT NULL AND wiped_at IS NULL;
COMMIT;
